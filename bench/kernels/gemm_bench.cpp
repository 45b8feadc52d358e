// Matrix products of GPT-2 and a small model, forward, dX and dW, beside the library's sgemm: FLOP/s.
#include "bench/limits.h"
#include "kernels/gemm/gemm.h"
#include "libtrain/plan/scratch.h"

#include <benchmark/benchmark.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <memory>
#include <vector>

using namespace trainyard;
using kernels::Transpose;

namespace {

// {tokens, in, out}
const std::int64_t layers[][3] = {{1024, 768, 2304}, {1024, 768, 768},   {1024, 768, 3072},
                                  {1024, 3072, 768}, {1024, 768, 50304}, {2048, 256, 768},
                                  {2048, 256, 1024}, {2048, 1024, 256},  {2048, 256, 8192}};

std::vector<float> values(std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 31) / 16 - 1;
  return v;
}

// kind 0: y = x W^T, 1: dx = dy W, 2: dW = dy^T x.
struct Product {
  std::int64_t m, n, k;
  Transpose ta, tb;
};
Product product(const std::int64_t* l, std::int64_t kind) {
  if (kind == 0) return {l[0], l[2], l[1], Transpose::no, Transpose::yes};
  if (kind == 1) return {l[0], l[1], l[2], Transpose::no, Transpose::no};
  return {l[2], l[1], l[0], Transpose::yes, Transpose::no};
}

void report(benchmark::State& state, const Product& p, int threads) {
  bench::report(state, "FLOP/s", 2.0 * static_cast<double>(p.m * p.n * p.k), bench::product_limit(threads));
}

void run_ours(benchmark::State& state) {
  const auto p = product(layers[state.range(0)], state.range(1));
  auto a = values(p.m * p.k), b = values(p.k * p.n), c = values(p.m * p.n);
  tensor::Arena arena(tensor::Category::workspace, plan::gemm_scratch_bytes(p.m, p.n, p.k, false) + 4096);
  auto exec = tensor::Exec::caller(&arena, static_cast<int>(state.range(2)));
  const auto va = p.ta == Transpose::yes ? base::View::of(a.data(), {p.k, p.m}) : base::View::of(a.data(), {p.m, p.k});
  const auto vb = p.tb == Transpose::yes ? base::View::of(b.data(), {p.n, p.k}) : base::View::of(b.data(), {p.k, p.n});
  for (auto _ : state) kernels::gemm(*exec, va, p.ta, vb, p.tb, base::View::of(c.data(), {p.m, p.n}));
  report(state, p, static_cast<int>(state.range(2)));
}

// The library with as many threads as OMP_NUM_THREADS gives it.
void run_library(benchmark::State& state) {
  const auto p = product(layers[state.range(0)], state.range(1));
  auto a = values(p.m * p.k), b = values(p.k * p.n), c = values(p.m * p.n);
  const bool ta = p.ta == Transpose::yes, tb = p.tb == Transpose::yes;
  for (auto _ : state)
    dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', p.m, p.n, p.k, 1.0f, a.data(), ta ? p.m : p.k, b.data(), tb ? p.k : p.n,
               0.0f, c.data(), p.n);
  report(state, p, omp_get_max_threads());
}

}  // namespace

BENCHMARK(run_ours)
    ->ArgNames({"layer", "kind", "threads"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 8, 1), {0, 1, 2}, {1, 4}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(run_library)
    ->ArgNames({"layer", "kind"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 8, 1), {0, 1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
