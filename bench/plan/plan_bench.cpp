// The cost of checking and predicting one plan, since a planner that searches asks for many. The models differ only in
// their number of layers, and the time must not depend on it.
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/presets.h"

#include <benchmark/benchmark.h>

using namespace trainyard;

namespace {

plan::Plan sample(std::int64_t layers, int ranks, int zero) {
  plan::Plan p;
  p.model = plan::preset("llama-8b");
  p.model.layers = layers, p.model.vocabulary = 128256;
  p.model.lanes = plan::default_lanes(p.model, base::DeviceKind::cpu);
  p.topology = plan::Topology({{plan::Axis::data, ranks}});
  p.zero = zero, p.micro_batch = 1, p.global_batch = 4 * ranks, p.sequence = 4096, p.dtype = base::DType::bf16;
  return p;
}

void predict(benchmark::State& state) {
  auto p = sample(state.range(0), static_cast<int>(state.range(1)), static_cast<int>(state.range(2)));
  for (auto _ : state) {
    plan::predict(p);
    benchmark::DoNotOptimize(p.memory);
  }
  state.counters["plans/s"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
}

void judge(benchmark::State& state) {
  const auto p = sample(state.range(0), static_cast<int>(state.range(1)), static_cast<int>(state.range(2)));
  for (auto _ : state) benchmark::DoNotOptimize(plan::decision_problems(p));
  state.counters["plans/s"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

BENCHMARK(predict)
    ->ArgNames({"layers", "ranks", "zero"})
    ->Args({32, 8, 0})
    ->Args({1000, 1000, 0})
    ->Args({1000, 1000, 3});
BENCHMARK(judge)->ArgNames({"layers", "ranks", "zero"})->Args({1000, 1000, 3});
