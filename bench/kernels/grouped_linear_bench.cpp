// The cost of groups: products of experts beside one dense product of as many rows and equal widths, so of equal FLOPs.
// Both are timed in turns and their least times compared, so that other load on the machine affects both. One thread is
// timed by its processor time.
#include "bench/limits.h"
#include "kernels/grouped_linear/grouped_linear.h"
#include "kernels/linear/linear.h"
#include "libtrain/plan/blocks/scratch.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <vector>

using namespace trainyard;

namespace {

enum Kind { forward, input_gradient, weight_gradient };
const char* const names[] = {"forward", "input gradient", "weight gradient"};
// {in, out}
const std::int64_t widths[][2] = {{768, 3072}, {1024, 4096}, {3072, 768}};

struct Tensor {
  std::vector<char> bytes;
  base::View view;
  Tensor(base::DType dtype, std::int64_t rows, std::int64_t cols)
      : bytes(static_cast<std::size_t>(rows * cols * base::size_of(dtype))), view(bytes.data(), dtype, {rows, cols}) {
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const auto v = static_cast<float>(i % 31) / 16 - 1;
      if (dtype == base::DType::f32) view.ptr<float>()[i] = v;
      else view.ptr<base::bf16>()[i] = base::bf16(v);
    }
  }
};

double seconds_now(int threads) {
  if (threads == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Times {
  int threads;
  double least = 1e300;
  template <class Body> double take(const Body& body) {
    const double start = seconds_now(threads);
    body();
    const double seconds = seconds_now(threads) - start;
    least = std::min(least, seconds);
    return seconds;
  }
};

void run(benchmark::State& state) {
  const auto kind = static_cast<Kind>(state.range(0));
  const auto in = widths[state.range(1)][0], out = widths[state.range(1)][1], n = state.range(2);
  const auto groups = state.range(3);
  const auto threads = static_cast<int>(state.range(4));
  const auto dtype = state.range(5) == 0 ? base::DType::f32 : base::DType::bf16;
  Tensor x(dtype, n, in), y(dtype, n, out), w(dtype, groups * out, in);
  Tensor dw(base::DType::f32, kind == weight_gradient ? groups * out : 1, in), db(base::DType::f32, groups, out);
  std::vector<std::int32_t> ranges;
  for (std::int64_t g = 0; g < groups; ++g) {
    ranges.push_back(static_cast<std::int32_t>(n * g / groups));
    ranges.push_back(static_cast<std::int32_t>(n * (g + 1) / groups - n * g / groups));
  }
  const kernels::RowGroups rows{base::View::of(ranges.data(), {groups, 2})};
  const kernels::GroupedView weights{w.view.row_range(0, out), out * in, groups};
  const kernels::GroupedView dweights{dw.view.row_range(0, kind == weight_gradient ? out : 1), out * in, groups};
  const kernels::GroupedView dbiases{db.view.row_range(0, 1), out, groups};
  const bool rounds = dtype == base::DType::bf16;
  const plan::GroupedProduct forth{
      .rows = n, .groups = groups, .n = out, .k = in, .parts = 1, .lanes = 1, .narrow_result = rounds};
  auto back = forth;
  back.n = in, back.k = out;
  const auto bytes =
      std::max({plan::grouped_linear_scratch_bytes(forth, threads), plan::grouped_linear_scratch_bytes(back, threads),
                plan::grouped_linear_weight_scratch_bytes(n, out, in, threads),
                plan::gemm_scratch_bytes(n, out, in, rounds), plan::gemm_scratch_bytes(n, in, out, rounds),
                plan::gemm_scratch_bytes(out, in, n, rounds), plan::column_sum_scratch_bytes(n, out, 4)});
  tensor::Arena arena(tensor::Category::workspace, bytes);
  auto exec = tensor::Exec::caller(&arena, threads);
  const auto grouped = [&] {
    if (kind == forward) {
      kernels::grouped_linear_forward(*exec, {.groups = rows, .x = x.view, .weight = weights, .lanes = 1, .y = y.view});
    } else if (kind == input_gradient) {
      const kernels::GroupedPart part{y.view, weights};
      kernels::grouped_linear_backward_input(*exec, rows, {&part, 1}, 1, x.view);
    } else {
      kernels::grouped_linear_backward_weight(*exec, rows, y.view, x.view, dweights, dbiases);
    }
  };
  const auto dense = [&] {
    const auto weight = w.view.row_range(0, out);
    if (kind == forward) kernels::linear_forward(*exec, x.view, weight, {}, y.view);
    else if (kind == input_gradient) kernels::linear_backward_input(*exec, y.view, weight, x.view);
    else
      kernels::linear_backward_weight(*exec, y.view, x.view, dw.view.row_range(0, out),
                                      db.view.row_range(0, 1).reshaped({out}));
  };
  grouped(), dense();
  Times of_groups{threads}, of_one{threads};
  for (auto _ : state) {
    double seconds = of_groups.take(grouped);
    seconds += of_one.take(dense);
    state.SetIterationTime(seconds);
  }
  const double flops = 2.0 * static_cast<double>(n * in * out);
  state.SetLabel(names[kind]);
  state.counters["grouped_FLOP/s"] = flops / of_groups.least;
  state.counters["dense_FLOP/s"] = flops / of_one.least;
  state.counters["ratio"] = of_one.least / of_groups.least;
}

}  // namespace

BENCHMARK(run)
    ->ArgNames({"kind", "widths", "rows", "groups", "threads", "bf16"})
    ->ArgsProduct({{0, 1, 2}, {0, 1}, {2048}, {8, 64}, {1, 2}, {0, 1}})
    ->UseManualTime()
    ->MinTime(2.0)
    ->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
