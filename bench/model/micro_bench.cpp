// Forward and backward of one micro-batch, without traffic of a parameter store or an update: tokens per second, and
// FLOP/s by the formula of bench/README.md.
#include "bench/limits.h"
#include "libtrain/model/assemble.h"
#include "libtrain/model/feed_forward_branch.h"
#include "libtrain/plan/blocks/feed_forward.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/model/small_model.h"

#include <benchmark/benchmark.h>

namespace trainyard::test {
namespace {

plan::ModelConfig compared() {  // 4 layers, 256 wide
  auto m = plan::preset("gpt2");
  m.name = "4x256";
  m.layers = 4, m.hidden = 256, m.heads = m.kv_heads = 8, m.ffn = 1024, m.vocabulary = 8192, m.context = 256;
  m.lanes = plan::default_lanes(m, base::DeviceKind::cpu);
  return m;
}

// A multiply-add counts two, and causal attention is counted in full: 6 for each weight of a product and token, and 12
// L h T for each token.
double flops_of(const plan::ModelConfig& m, double tokens, double sequence) {
  double weights = static_cast<double>(m.vocabulary * m.hidden);
  for (const auto& flat_group : plan::flat_groups(m))
    for (const auto& p : flat_group.parameters)
      if (flat_group.part == plan::Part::layers && p.shape.size() == 2) weights += static_cast<double>(p.count());
  return tokens * (6 * weights + 12 * static_cast<double>(m.layers * m.hidden) * sequence);
}

void micro(benchmark::State& state, plan::ModelConfig m, std::int64_t b, std::int64_t t, base::DType dtype,
           plan::Recompute recompute = plan::Recompute::none) {
  const plan::MicroShape shape{{b, t}, {dtype, static_cast<int>(state.range(0))}};
  m.lanes = state.range(1);
  PlainStore store(m, dtype, 1, PlainStore::Fill::nothing);
  Runner runner(m, shape, recompute);
  const Batch batch(formula_windows(m.vocabulary, 0, b, t, false), false);
  for (auto _ : state) runner.train(store, batch);
  const auto tokens = static_cast<double>(state.iterations() * b * t);
  state.counters["tokens/s"] = benchmark::Counter(tokens, benchmark::Counter::kIsRate);
  bench::report(state, "FLOP/s", flops_of(m, static_cast<double>(b * t), static_cast<double>(t)),
                bench::product_limit(shape.threads));
}

plan::ModelConfig gpt2_small() {
  auto m = plan::preset("gpt2");
  m.vocabulary = 50257;
  m.lanes = plan::default_lanes(m, base::DeviceKind::cpu);
  return m;
}

// A feed-forward branch that computes its output also where nobody reads it.
struct WholeFeedForward : plan::FeedForwardKind {
  bool skips_unread_output() const override { return false; }
};
plan::ModelConfig remade_whole(plan::ModelConfig m) {
  model::register_branch("whole", std::make_shared<WholeFeedForward>(), [](const model::BranchSpec& spec) {
    return std::make_unique<model::FeedForwardBranch>(spec);
  });
  m.branches.back() = "whole";
  return m;
}

// The layers that recomputation is for, with a small head.
plan::ModelConfig gpt2_layers() {
  auto m = gpt2_small();
  m.layers = 2, m.vocabulary = 1024;
  return m;
}

// Several numbers of threads and lanes.
BENCHMARK_CAPTURE(micro, 4x256_f32, compared(), 8, 256, base::DType::f32)
    ->Args({1, 1})
    ->Args({1, 4})
    ->Args({4, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(micro, 4x256_bf16, compared(), 8, 256, base::DType::bf16)
    ->Args({4, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(micro, gpt2_f32, gpt2_small(), 4, 256, base::DType::f32)
    ->Args({2, 1})
    ->Args({2, 4})
    ->Args({4, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(micro, gpt2_bf16, gpt2_small(), 4, 256, base::DType::bf16)
    ->Args({2, 1})
    ->Args({2, 4})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
// No recomputation; selective; full up to what backward reads; full with the whole forward.
BENCHMARK_CAPTURE(micro, gpt2_layers_f32, gpt2_layers(), 1, 256, base::DType::f32)
    ->Args({1, 4})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(micro, gpt2_layers_f32_selective, gpt2_layers(), 1, 256, base::DType::f32, plan::Recompute::selective)
    ->Args({1, 4})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(micro, gpt2_layers_f32_recomputed, gpt2_layers(), 1, 256, base::DType::f32, plan::Recompute::layers)
    ->Args({1, 4})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(micro, gpt2_layers_f32_recomputed_whole, remade_whole(gpt2_layers()), 1, 256, base::DType::f32,
                  plan::Recompute::layers)
    ->Args({1, 4})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trainyard::test
