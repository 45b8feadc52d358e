// Kernels that memory limits: bytes per second, beside the rate of a plain copy in the same run.
#include "bench/limits.h"
#include "kernels/adafactor/adafactor.h"
#include "kernels/cast/cast.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/norm/norm.h"
#include "kernels/ordered_sum/ordered_sum.h"
#include "kernels/square_sum/square_sum.h"
#include "kernels/update/update.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

namespace {

using namespace trainyard;
using base::View;

constexpr std::int64_t count = std::int64_t{1} << 24;  // 64 MiB of f32: larger than the caches

struct Bench {
  explicit Bench(benchmark::State& s) : state(s), exec(tensor::Exec::caller(&scratch, static_cast<int>(s.range(0)))) {}
  void report(double bytes) {
    bench::report(state, "bytes/s", bytes, bench::copy_limit(static_cast<int>(state.range(0))));
  }
  benchmark::State& state;
  tensor::Arena scratch{tensor::Category::workspace, std::int64_t{64} << 20};
  std::unique_ptr<tensor::Exec> exec;
};

std::vector<float> values(std::int64_t n = count) { return std::vector<float>(static_cast<std::size_t>(n), 0.01f); }

// The limit: one read, one write.
void copy(benchmark::State& state) {
  Bench b(state);
  auto x = values(), y = values();
  for (auto _ : state) kernels::copy(*b.exec, View::of(x.data(), {count}), View::of(y.data(), {count}));
  b.report(8.0 * count);
}

// Reads p, g, m, v, writes p, m, v: 28 bytes an element.
void adamw(benchmark::State& state) {
  Bench b(state);
  auto p = values(), g = values(), m = values(), v = values();
  kernels::AdamW hyper;
  hyper.learning_rate = 1e-3f;
  for (auto _ : state)
    kernels::update(*b.exec, {.rule = hyper,
                              .gradient = View::of(g.data(), {count}),
                              .parameter = View::of(p.data(), {count}),
                              .states = {View::of(m.data(), {count}), View::of(v.data(), {count})}});
  b.report(28.0 * count);
}

// The same with a working copy in bf16, which is written: 30 bytes an element.
void adamw_bf16(benchmark::State& state) {
  Bench b(state);
  auto p = values(), g = values(), m = values(), v = values();
  std::vector<std::uint16_t> working(count);
  kernels::AdamW hyper;
  hyper.learning_rate = 1e-3f;
  for (auto _ : state)
    kernels::update(*b.exec, {.rule = hyper,
                              .gradient = View::of(g.data(), {count}),
                              .parameter = View::of(p.data(), {count}),
                              .states = {View::of(m.data(), {count}), View::of(v.data(), {count})},
                              .working = View(working.data(), base::DType::bf16, {count})});
  b.report(30.0 * count);
}

// With a remainder in place of p: reads and writes working copy, remainder, m, v, reads g and the marks, which are
// hardly ever written: 28.1 bytes an element.
void adamw_remainder(benchmark::State& state) {
  Bench b(state);
  auto p = values(), g = values(), m = values(), v = values();
  std::vector<std::uint16_t> working(count), low(count);
  std::vector<std::uint8_t> marks(count / 8);
  const kernels::Remainder remainder{View::of(low.data(), {count}), View::of(marks.data(), {count / 8})};
  const View of_working(working.data(), base::DType::bf16, {count});
  kernels::split_master(*b.exec, View::of(p.data(), {count}), of_working, remainder);
  kernels::AdamW hyper;
  hyper.learning_rate = 1e-3f;
  for (auto _ : state)
    kernels::update(*b.exec, {.rule = hyper,
                              .gradient = View::of(g.data(), {count}),
                              .states = {View::of(m.data(), {count}), View::of(v.data(), {count})},
                              .working = of_working,
                              .remainder = remainder});
  b.report(28.125 * count);
}

// A matrix of 4096 x 4096 in all passes: reads g four times and p twice, writes p, 28 bytes an element.
void adafactor(benchmark::State& state) {
  Bench b(state);
  constexpr std::int64_t side = 4096, digits = kernels::square_sum_limbs;
  static_assert(side * side == count);
  auto p = values(), g = values(), row_var = values(side), column_var = values(side), by_row = values(side),
       by_column = values(side);
  std::vector<std::int64_t> sums(static_cast<std::size_t>((2 * side + 2) * digits));
  const auto all = View::of(sums.data(), {2 * side + 2, digits}), rows = all.row_range(0, side),
             columns = all.row_range(side, side), norms = all.row_range(2 * side, 2);
  const auto of = [](std::vector<float>& x) { return View::of(x.data(), {static_cast<std::int64_t>(x.size())}); };
  const kernels::AdafactorPart part{
      .gradient = of(g), .held = {0, side}, .row_factors = of(by_row), .column_factors = of(by_column)};
  const kernels::Adafactor rule;
  for (auto _ : state) {
    std::fill(sums.begin(), sums.end(), 0);
    kernels::add_line_squares(*b.exec,
                              {.rule = rule, .gradient = of(g), .held = part.held, .rows = rows, .columns = columns});
    kernels::update_lines(*b.exec, {.rule = rule,
                                    .row_squares = rows,
                                    .column_squares = columns,
                                    .row_var = of(row_var),
                                    .column_var = of(column_var),
                                    .row_factors = of(by_row),
                                    .column_factors = of(by_column)});
    kernels::add_adafactor_squares(*b.exec, rule, part, of(p), norms);
    kernels::adafactor_update(*b.exec,
                              {.rule = rule, .part = part, .parameter = of(p), .squares = norms, .count = count});
  }
  b.report(28.0 * count);
}

// Adds four contributions to a sum: four reads, one write.
void ordered_sum(benchmark::State& state) {
  Bench b(state);
  auto shards = values(4 * count), sum = values();
  for (auto _ : state)
    kernels::ordered_sum(*b.exec, View::of(shards.data(), {4, count}), View::of(sum.data(), {count}),
                         base::ReductionRound::first);
  b.report(20.0 * count);
}

void square_sum(benchmark::State& state) {
  Bench b(state);
  auto x = values();
  for (auto _ : state) {
    kernels::FixedPointSum sum;
    kernels::square_sum(*b.exec, View::of(x.data(), {count}), sum);
    benchmark::DoNotOptimize(sum);
  }
  b.report(4.0 * count);
}

// One read, one write; statistics and weights do not count.
void layer_norm(benchmark::State& state) {
  Bench b(state);
  constexpr std::int64_t h = 768, n = count / h;
  auto x = values(n * h), y = values(n * h), weight = values(h), bias = values(h), mean = values(n), rstd = values(n);
  for (auto _ : state)
    kernels::layer_norm_forward(*b.exec, {.x = View::of(x.data(), {n, h}),
                                          .weight = View::of(weight.data(), {h}),
                                          .bias = View::of(bias.data(), {h}),
                                          .epsilon = 1e-5,
                                          .y = View::of(y.data(), {n, h}),
                                          .mean = View::of(mean.data(), {n}),
                                          .rstd = View::of(rstd.data(), {n})});
  b.report(8.0 * n * h);
}

// Loss and gradient of 64 tokens over a vocabulary of 50257. The logits are read once from memory, and the gradient is
// written. The exponentials take the time, not the memory. Lanes should cost nothing.
void cross_entropy(benchmark::State& state) {
  Bench b(state);
  constexpr std::int64_t n = 64, vocabulary = 50257, stored = 50304;
  auto logits = values(n * stored), gradient = values(n * stored);
  const std::vector<std::int32_t> targets(n, 5);
  const std::vector<std::uint8_t> weights(n, 1);
  std::vector<double> losses(n);
  for (auto _ : state)
    kernels::cross_entropy_chunk(*b.exec, {.logits = View::of(logits.data(), {n, stored}),
                                           .targets = View::of(targets.data(), {n}),
                                           .weights = View::of(weights.data(), {n}),
                                           .vocabulary = vocabulary,
                                           .lanes = state.range(1),
                                           .losses = View::of(losses.data(), {n}),
                                           .dlogits = View::of(gradient.data(), {n, stored})});
  b.report(8.0 * n * stored);
}

BENCHMARK(copy)->Arg(1)->Arg(4)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(adamw)->Arg(1)->Arg(4)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(adamw_bf16)->Arg(1)->Arg(4)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(adamw_remainder)->Arg(1)->Arg(4)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(adafactor)->Arg(1)->Arg(4)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(ordered_sum)->Arg(1)->Arg(4)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(square_sum)->Arg(1)->Arg(4)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(layer_norm)->Arg(1)->Arg(4)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cross_entropy)
    ->ArgsProduct({{1, 4}, {1, 4, 8}})
    ->ArgNames({"threads", "lanes"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
