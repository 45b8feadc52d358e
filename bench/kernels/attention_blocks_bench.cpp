// Block-sparse attention compared with dense attention in the same run: how much of the left-out work is saved time.
#include "bench/limits.h"
#include "kernels/attention/attention.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/tile_list.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace trainyard;
using base::View;

constexpr std::int64_t L = 8192, heads = 12, d = 64;

plan::ModelConfig model_of(const std::string& layout, std::int64_t block, bool causal) {
  plan::ModelConfig m;
  m.layers = 1, m.heads = m.kv_heads = heads, m.hidden = heads * d, m.context = L;
  m.attention.layout = {layout}, m.attention.block = block, m.attention.causal = causal;
  if (layout == "sliding_eighth") {  // about an eighth of the blocks of 64
    m.attention.layout = {"sliding"};
    m.attention.window = (causal ? 8 : 17) * 64 / block;
  }
  return m;
}

// One sequence, forward and backward, of random values: equal values would make maxima free. Rows lie in arenas, as in
// a model.
struct Setup {
  explicit Setup(int threads)
      : rows(tensor::Category::activations, 8 * L * heads * d * 4 + heads * L * 4 + base::aligned(L * 4)),
        scratch(tensor::Category::workspace, std::max(plan::attention_forward_scratch_bytes(L, d, heads, threads),
                                                      plan::attention_backward_scratch_bytes(L, d, 1, heads, threads))),
        exec(tensor::Exec::caller(&scratch, threads)) {
    std::uint64_t seed = 1;
    for (auto* x : {&q, &k, &v, &dout, &out, &dq, &dk, &dv}) {
      *x = rows.allocate(base::DType::f32, {L, heads * d});
      for (std::int64_t i = 0; i < L * heads * d; ++i) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        x->ptr<float>()[i] = static_cast<float>(static_cast<double>(seed >> 33) * 0x1p-30 - 1);
      }
    }
    lse = rows.allocate(base::DType::f32, {heads, L}), start = rows.allocate(base::DType::i32, {1, L});
    std::fill_n(start.ptr<std::int32_t>(), L, 0);
  }
  void forward(const kernels::Visibility& see) { run(see, false); }
  void backward(const kernels::Visibility& see) { run(see, true); }

 private:
  void run(const kernels::Visibility& see, bool back) {
    kernels::AttentionShape s{1, L, heads, heads, d, 1 / std::sqrt(static_cast<double>(d))};
    s.visibility = see;
    if (!back)
      return kernels::attention_forward(
          *exec, {.shape = s, .q = q, .k = k, .v = v, .document_start = start, .out = out, .lse = lse});
    kernels::attention_backward(*exec, {.shape = s,
                                        .q = q,
                                        .k = k,
                                        .v = v,
                                        .document_start = start,
                                        .out = out,
                                        .lse = lse,
                                        .dout = dout,
                                        .dq = dq,
                                        .dk = dk,
                                        .dv = dv});
  }
  tensor::Arena rows, scratch;
  std::unique_ptr<tensor::Exec> exec;
  View q, k, v, dout, out, dq, dk, dv, lse, start;
};

struct Lists {
  plan::TileList by_queries, by_keys;
  kernels::Visibility visibility(bool causal) const {
    const auto view = [](const plan::TileList& l) {
      return kernels::TileView{l.begin.data(), l.other.data(), l.parts.data(), l.tiles, l.heads};
    };
    kernels::Visibility see;
    see.causal = causal;
    if (by_queries.tiles > 0) see.by_queries = view(by_queries), see.by_keys = view(by_keys);
    return see;
  }
};

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void blocks(benchmark::State& state, const std::string& layout, bool causal, bool back) {
  const auto block = state.range(0);
  const int threads = static_cast<int>(state.range(1));
  const auto layout_of = plan::block_layout(model_of(layout, block, causal), 0, L);
  Lists lists;
  if (layout != "dense") {
    lists.by_queries = plan::tiles_of(layout_of);
    lists.by_keys = plan::by_keys(lists.by_queries);
  }
  const auto see = lists.visibility(causal);
  Setup setup(threads);
  setup.forward(see);
  const auto pass = [&](const kernels::Visibility& of) {
    return seconds_of([&] { back ? setup.backward(of) : setup.forward(of); });
  };
  // Dense attention runs before and after, so that a disturbance of the machine affects both.
  const auto dense = Lists().visibility(causal);
  pass(dense);
  const double before = pass(dense);
  pass(see);
  double total = 0;
  for (auto _ : state) total += pass(see);
  const double dense_seconds = (before + pass(dense)) / 2;
  const auto n = static_cast<double>(layout_of.n), all = causal ? n * (n + 1) / 2 : n * n;
  const double density = static_cast<double>(layout_of.columns.size()) / static_cast<double>(layout_of.heads) / all;
  const double gain = dense_seconds / (total / static_cast<double>(state.iterations()));
  state.counters["density"] = density;
  state.counters["times_dense"] = gain;
  state.counters["of_1/density"] = gain * density;
}

void of_layouts() {
  for (const bool back : {false, true})
    for (const bool causal : {true, false})
      for (const char* layout : {"sliding", "sliding_eighth", "longformer", "bigbird", "fixed", "variable", "dense"})
        benchmark::RegisterBenchmark(
            (std::string(back ? "backward/" : "forward/") + layout + (causal ? "/causal" : "/full")).c_str(), blocks,
            std::string(layout), causal, back)
            ->ArgsProduct({{16, 64, 128}, {1, 2}})
            ->ArgNames({"block", "threads"})
            ->Iterations(6)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  of_layouts();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
