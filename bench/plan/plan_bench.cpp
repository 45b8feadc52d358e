// The cost of checking and predicting one plan, and of searches, which ask for many. The models of single plans differ
// only in their number of layers, and the time must not depend on it. Each of those is asked for again and again, so
// what follows from the model alone is known from the first time on.
#include "libtrain/plan/problems.h"
#include "libtrain/plan/search_answers.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/presets.h"

#include <benchmark/benchmark.h>

#include <thread>

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

// As partition-model --search, without --offload auto (bench/RESULTS.md).
void search(benchmark::State& state, const char* model, const char* machine, int nodes, std::int64_t global_batch) {
  plan::SearchOf of;
  of.machine = plan::load_machine(machine);
  of.plan.model = plan::preset(model);
  of.plan.model.vocabulary = 51200, of.plan.model.lanes = 1;
  of.plan.sequence = of.plan.model.context, of.plan.global_batch = global_batch;
  of.plan.device = base::DeviceKind::cuda, of.plan.dtype = base::DType::bf16;
  of.plan = plan::on_ranks(of.plan, nodes * of.machine.devices_per_node);
  of.space.offload = false;
  of.limits.device_bytes = plan::device_memory_of(of.machine);
  double layouts = 0;
  // Each in a thread of its own, which knows nothing of the model yet.
  for (auto _ : state) std::thread([&] { layouts += static_cast<double>(plan::search(of).counts.layouts); }).join();
  state.counters["layouts/s"] = benchmark::Counter(layouts, benchmark::Counter::kIsRate);
}

}  // namespace

BENCHMARK_CAPTURE(search, llama_8b, "llama-8b", "dgx-a100-40", 4, 512)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, gpt3_175b, "gpt3-175b", "dgx-a100-80", 128, 1536)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, deepseek_16b, "deepseek-16b", "dgx-a100-80", 2, 512)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(predict)
    ->ArgNames({"layers", "ranks", "zero"})
    ->Args({32, 8, 0})
    ->Args({1000, 1000, 0})
    ->Args({1000, 1000, 3});
BENCHMARK(judge)->ArgNames({"layers", "ranks", "zero"})->Args({1000, 1000, 3});
