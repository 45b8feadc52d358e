// Attention, forward and backward: FLOP/s for several sequence lengths and numbers of threads.
#include "bench/limits.h"
#include "kernels/attention/attention.h"
#include "libtrain/plan/blocks/scratch.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

using namespace trainyard;
using base::View;

enum class Pass { forward, backward };

// Rows in an arena, as in a model, of random values: equal values would make maxima free.
View rows(tensor::Arena& arena, base::DType dtype, std::int64_t n, std::int64_t columns) {
  auto view = arena.allocate(dtype, {n, columns});
  std::uint64_t seed = 1;
  for (std::int64_t i = 0; i < n * columns; ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const auto value = static_cast<float>(static_cast<double>(seed >> 33) * 0x1p-30 - 1);
    if (dtype == base::DType::f32) view.ptr<float>()[i] = value;
    else view.ptr<base::bf16>()[i] = base::bf16(value);
  }
  return view;
}

// Causal attention visits half of the T x T pairs, but the whole square is counted, as model FLOPs do: 2 products of 2
// T T d forward, 5 backward. The limit is that of products of the same dtype.
void attention(benchmark::State& state, Pass pass, base::DType dtype) {
  const std::int64_t T = state.range(0), batch = T <= 1024 ? 4 : 1, heads = 12, d = 64;
  const int threads = static_cast<int>(state.range(1));
  const auto n = batch * T, h = heads * d;
  tensor::Arena scratch(tensor::Category::workspace,
                        std::max(plan::attention_forward_scratch_bytes(T, d, batch * heads, threads),
                                 plan::attention_backward_scratch_bytes(T, d, 1, batch * heads, threads)));
  tensor::Arena memory(tensor::Category::activations, 8 * (base::aligned(n * h * 4) + 4096) + 4 * n * heads + 4096);
  const auto exec = tensor::Exec::caller(&scratch, threads);
  const auto q = rows(memory, dtype, n, h), k = rows(memory, dtype, n, h), v = rows(memory, dtype, n, h),
             out = rows(memory, dtype, n, h), dout = rows(memory, dtype, n, h), dq = rows(memory, dtype, n, h),
             dk = rows(memory, dtype, n, h), dv = rows(memory, dtype, n, h),
             sums = rows(memory, base::DType::f32, batch * heads, T);
  std::vector<std::int32_t> start(static_cast<std::size_t>(n), 0);
  const auto starts = View::of(start.data(), {batch, T});
  const kernels::AttentionShape shape{batch, T, heads, heads, d, 1 / std::sqrt(static_cast<double>(d))};
  kernels::attention_forward(
      *exec, {.shape = shape, .q = q, .k = k, .v = v, .document_start = starts, .out = out, .lse = sums});
  for (auto _ : state) {
    if (pass == Pass::forward)
      kernels::attention_forward(
          *exec, {.shape = shape, .q = q, .k = k, .v = v, .document_start = starts, .out = out, .lse = sums});
    else
      kernels::attention_backward(*exec, {.shape = shape,
                                          .q = q,
                                          .k = k,
                                          .v = v,
                                          .document_start = starts,
                                          .out = out,
                                          .lse = sums,
                                          .dout = dout,
                                          .dq = dq,
                                          .dk = dk,
                                          .dv = dv});
    benchmark::ClobberMemory();
  }
  const double products = pass == Pass::forward ? 2 : 5;
  bench::report(state, "FLOP/s", products * 2.0 * static_cast<double>(batch * heads * T * T * d),
                bench::product_limit(threads, dtype));
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgsProduct({{256, 1024, 4096, 8192}, {1, 2, 4}})
      ->ArgNames({"T", "threads"})
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(attention, forward_f32, Pass::forward, base::DType::f32)->Apply(sizes);
BENCHMARK_CAPTURE(attention, forward_bf16, Pass::forward, base::DType::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(attention, backward_f32, Pass::backward, base::DType::f32)->Apply(sizes);
BENCHMARK_CAPTURE(attention, backward_bf16, Pass::backward, base::DType::bf16)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
