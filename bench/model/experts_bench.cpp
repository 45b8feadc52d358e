// Feed-forward layers with experts compared with dense layers of as many FLOPs for a token: forward and backward of one
// micro-batch, in turns.
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/model/small_model.h"

#include <benchmark/benchmark.h>

#include <chrono>

namespace trainyard::test {
namespace {

constexpr std::int64_t samples = 8, sequence = 256;

// Layers of a feed-forward part alone, 768 wide, with a head of few words. Experts drop no token.
plan::ModelConfig layers_of(std::int64_t experts, std::int64_t top_k) {
  auto m = plan::preset("gpt2");
  m.layers = 2, m.vocabulary = 256, m.context = sequence, m.lanes = 1;
  m.branches = {"ffn"};
  if (experts == 0) return m;
  m.experts.count = {experts}, m.experts.top_k = top_k, m.experts.capacity_factor = "none";
  m.experts.ffn = m.ffn / top_k;
  return m;
}

struct Layers {
  PlainStore store;
  Runner runner;
  double least = 1e300;
  Layers(const plan::ModelConfig& m, base::DType dtype, int threads)
      : store(m, dtype, 1, PlainStore::Fill::nothing), runner(m, {samples, sequence, dtype, threads}) {}
  double train(const Batch& batch) {
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto start = now();
    runner.train(store, batch);
    const auto seconds = std::chrono::duration<double>(now() - start).count();
    least = std::min(least, seconds);
    return seconds;
  }
};

void experts_over_dense(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(2));
  const auto dtype = state.range(3) == 0 ? base::DType::f32 : base::DType::bf16;
  Layers dense(layers_of(0, 1), dtype, threads), experts(layers_of(state.range(0), state.range(1)), dtype, threads);
  const Batch batch(formula_windows(256, 0, samples, sequence, false), false);
  dense.train(batch), experts.train(batch);
  for (auto _ : state) state.SetIterationTime(dense.train(batch) + experts.train(batch));
  state.counters["dense_ms"] = 1e3 * dense.least;
  state.counters["experts_ms"] = 1e3 * experts.least;
  state.counters["ratio"] = dense.least / experts.least;
}

BENCHMARK(experts_over_dense)
    ->ArgNames({"experts", "top_k", "threads", "bf16"})
    ->ArgsProduct({{8}, {1, 2}, {1, 2}, {0, 1}})
    ->Args({64, 1, 1, 0})
    ->UseManualTime()
    ->MinTime(4.0)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trainyard::test
