// Attention, forward and backward: FLOP/s against the sequence and the number of threads.
#include "bench/limits.h"
#include "kernels/attention/attention.h"
#include "libtrain/plan/scratch.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

namespace {

using namespace trainyard;
using base::View;

enum class Pass { forward, backward };

// Causal attention visits half of the T x T pairs; the whole square is counted, as model FLOPs count it: 2 products of
// 2 T T d forward, 5 backward.
void attention(benchmark::State& state, Pass pass) {
  const std::int64_t batch = 4, heads = 12, d = 64, T = state.range(0);
  const int threads = static_cast<int>(state.range(1));
  const auto n = batch * T, h = heads * d;
  tensor::Arena scratch(tensor::Category::workspace,
                        std::max(plan::attention_forward_scratch_bytes(T, d, batch * heads, threads),
                                 plan::attention_backward_scratch_bytes(T, d, 1, batch * heads, threads)));
  const auto exec = tensor::Exec::caller(&scratch, threads);
  std::vector<float> q(static_cast<std::size_t>(n * h), 0.1f), k(q), v(q), out(q), dout(q), dq(q), dk(q), dv(q),
      lse(static_cast<std::size_t>(batch * heads * T));
  std::vector<std::int32_t> start(static_cast<std::size_t>(n), 0);
  const auto rows = [&](std::vector<float>& x) { return View::of(x.data(), {n, h}); };
  const auto starts = View::of(start.data(), {batch, T}), sums = View::of(lse.data(), {batch * heads, T});
  const kernels::AttentionShape shape{batch, T, heads, heads, d, 1 / std::sqrt(static_cast<double>(d))};
  kernels::attention_forward(*exec, shape, rows(q), rows(k), rows(v), starts, rows(out), sums);
  for (auto _ : state) {
    if (pass == Pass::forward)
      kernels::attention_forward(*exec, shape, rows(q), rows(k), rows(v), starts, rows(out), sums);
    else
      kernels::attention_backward(*exec, shape, rows(q), rows(k), rows(v), starts, rows(out), sums, rows(dout),
                                  rows(dq), rows(dk), rows(dv));
    benchmark::ClobberMemory();
  }
  const double products = pass == Pass::forward ? 2 : 5;
  bench::report(state, "FLOP/s", products * 2.0 * static_cast<double>(batch * heads * T * T * d),
                bench::product_limit(threads));
}

BENCHMARK_CAPTURE(attention, forward, Pass::forward)
    ->ArgsProduct({{256, 1024, 4096}, {1, 4}})
    ->ArgNames({"T", "threads"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(attention, backward, Pass::backward)
    ->ArgsProduct({{256, 1024, 4096}, {1, 4}})
    ->ArgNames({"T", "threads"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
