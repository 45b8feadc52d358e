// Saving and loading a checkpoint of 50 MB a rank. Payload bytes are counted: 12 for each f32 parameter, 14 for bf16.
#include "bench/limits.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/saved_shards.h"

#include <benchmark/benchmark.h>

#include <filesystem>
#include <stdlib.h>
#include <string>
#include <vector>

namespace {

using namespace trainyard;
namespace fs = std::filesystem;

plan::ModelConfig model() {
  plan::ModelConfig m;
  m.layers = 4, m.hidden = 256, m.heads = 4, m.kv_heads = 4, m.ffn = 1024, m.vocabulary = 4000, m.context = 256;
  return m;
}

struct Sample {
  std::string folder;
  checkpoint::RunState state;
  std::vector<std::vector<float>> memory;
  checkpoint::RankShards shards;
  std::int64_t bytes = 0;

  Sample(base::DType dtype, int rank, int ranks) {
    char name[] = "/tmp/trainyard-bench-XXXXXX";
    folder = ::mkdtemp(name);
    state.step = 1;
    state.dtype = dtype;
    state.model = model();
    shards.rank = rank, shards.ranks = ranks;
    for (auto kind : checkpoint::kinds_of(dtype))
      for (const auto& flat_group : plan::flat_groups(state.model)) {
        const auto shard = plan::layout(flat_group, ranks).shard;
        memory.emplace_back(static_cast<std::size_t>(shard), 0.5f);
        auto& list = shards.views[kind];
        list.emplace_back(memory.back().data(), checkpoint::dtype_of(kind, state),
                          std::initializer_list<std::int64_t>{shard});
        bytes += list.back().bytes();
      }
    shards.boxes = checkpoint::boxes_of_shards(state.model, plan::replicas_of(ranks, 1), rank);
  }
  ~Sample() { fs::remove_all(folder); }
};

void write_rank(benchmark::State& loop) {
  Sample sample(loop.range(0) ? base::DType::bf16 : base::DType::f32, 0, 1);
  for (auto _ : loop) checkpoint::write_rank(sample.folder, sample.state, sample.shards, {});
  bench::report(loop, "bytes/s", static_cast<double>(sample.bytes), bench::write_limit(sample.folder));
}
BENCHMARK(write_rank)->ArgName("bf16")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(1);

void publish(benchmark::State& loop) {
  Sample sample(base::DType::f32, 0, 1);
  for (auto _ : loop) {
    loop.PauseTiming();
    checkpoint::write_rank(sample.folder, sample.state, sample.shards, {});
    loop.ResumeTiming();
    checkpoint::publish(sample.folder, sample.state, plan::Topology({{plan::Axis::data, 1}}), 1);
  }
}
BENCHMARK(publish)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(5);

// Reads the shards of one of `ranks` ranks from one rank's file, all kinds of tensors.
void read_shards(benchmark::State& loop) {
  Sample sample(base::DType::f32, 0, 1);
  checkpoint::write_rank(sample.folder, sample.state, sample.shards, {});
  checkpoint::publish(sample.folder, sample.state, plan::Topology({{plan::Axis::data, 1}}), 1);
  const int ranks = static_cast<int>(loop.range(0));
  const auto flat_groups = plan::flat_groups(sample.state.model);
  std::int64_t bytes = 0;
  for (auto _ : loop) {
    checkpoint::Reader reader(sample.folder + "/step-00000001");
    for (auto kind : checkpoint::kinds_of(base::DType::f32))
      for (std::size_t u = 0; u < flat_groups.size(); ++u) {
        const auto layout = plan::layout(flat_groups[u], ranks);
        std::vector<float> out(static_cast<std::size_t>(layout.shard));
        reader.read_shard(kind, flat_groups[u], plan::replicas_of(ranks, 1), 0, out.data());
        bytes += layout.shard * 4;
      }
  }
  bench::report(loop, "bytes/s", static_cast<double>(bytes) / static_cast<double>(loop.iterations()),
                bench::cached_read_limit(sample.folder));
}
BENCHMARK(read_shards)->ArgName("ranks")->Arg(1)->Arg(3)->Unit(benchmark::kMillisecond)->UseRealTime();

void verify(benchmark::State& loop) {
  Sample sample(base::DType::f32, 0, 1);
  checkpoint::write_rank(sample.folder, sample.state, sample.shards, {});
  checkpoint::publish(sample.folder, sample.state, plan::Topology({{plan::Axis::data, 1}}), 1);
  for (auto _ : loop) checkpoint::Reader(sample.folder + "/step-00000001").verify_all();
  bench::report(loop, "bytes/s", static_cast<double>(sample.bytes), bench::cached_read_limit(sample.folder));
}
BENCHMARK(verify)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
