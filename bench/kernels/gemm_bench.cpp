// Matrix products of GPT-2 and a small model, forward, dX and dW, in f32 and bf16, beside the products of a library:
// FLOP/s.
#include "bench/limits.h"
#include "kernels/gemm/gemm.h"
#include "libtrain/plan/blocks/scratch.h"

#include <benchmark/benchmark.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

using namespace trainyard;
using kernels::Transpose;

namespace {

// {tokens, in, out}
const std::int64_t layers[][3] = {{1024, 768, 2304}, {1024, 768, 768},   {1024, 768, 3072},
                                  {1024, 3072, 768}, {1024, 768, 50304}, {2048, 256, 768},
                                  {2048, 256, 1024}, {2048, 1024, 256},  {2048, 256, 8192}};

template <class T = float> std::vector<T> values(std::int64_t n) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto value = static_cast<float>(i % 31) / 16 - 1;
    if constexpr (sizeof(T) == 2) v[i] = static_cast<T>(std::bit_cast<std::uint32_t>(value) >> 16);  // no rounding
    else v[i] = value;
  }
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

void report(benchmark::State& state, const Product& p, int threads, base::DType dtype = base::DType::f32) {
  bench::report(state, "FLOP/s", 2.0 * static_cast<double>(p.m * p.n * p.k), bench::product_limit(threads, dtype));
}

template <class T> void run(benchmark::State& state, base::DType dtype) {
  const auto p = product(layers[state.range(0)], state.range(1));
  auto a = values<T>(p.m * p.k), b = values<T>(p.k * p.n);
  auto c = values(p.m * p.n);
  tensor::Arena arena(tensor::Category::workspace, plan::gemm_scratch_bytes(p.m, p.n, p.k, false) + 4096);
  auto exec = tensor::Exec::caller(&arena, static_cast<int>(state.range(2)));
  const bool ta = p.ta == Transpose::yes, tb = p.tb == Transpose::yes;
  const base::View va(a.data(), dtype, {ta ? p.k : p.m, ta ? p.m : p.k}),
      vb(b.data(), dtype, {tb ? p.n : p.k, tb ? p.k : p.n});
  for (auto _ : state)
    kernels::gemm(*exec,
                  {.a = va, .b = vb, .trans_a = p.ta, .trans_b = p.tb, .c = base::View::of(c.data(), {p.m, p.n})});
  report(state, p, static_cast<int>(state.range(2)), dtype);
}
void run_ours(benchmark::State& state) { run<float>(state, base::DType::f32); }
void run_ours_bf16(benchmark::State& state) { run<std::uint16_t>(state, base::DType::bf16); }

// The library's product, with as many threads as OMP_NUM_THREADS gives it.
void run_library(benchmark::State& state) {
  const auto p = product(layers[state.range(0)], state.range(1));
  auto a = values(p.m * p.k), b = values(p.k * p.n), c = values(p.m * p.n);
  const bool ta = p.ta == Transpose::yes, tb = p.tb == Transpose::yes;
  for (auto _ : state)
    dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', p.m, p.n, p.k, 1.0f, a.data(), ta ? p.m : p.k, b.data(), tb ? p.k : p.n,
               0.0f, c.data(), p.n);
  report(state, p, omp_get_max_threads());
}

// The library's product of bf16 into f32, with rows in the same layout.
void run_library_bf16(benchmark::State& state) {
  const auto p = product(layers[state.range(0)], state.range(1));
  auto a = values<std::uint16_t>(p.m * p.k), b = values<std::uint16_t>(p.k * p.n);
  auto c = values(p.m * p.n);
  using Memory = dnnl::memory;
  const auto of = [](std::int64_t rows, std::int64_t cols, Memory::data_type type, bool turned) {
    return Memory::desc({rows, cols}, type, turned ? Memory::format_tag::ba : Memory::format_tag::ab);
  };
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto da = of(p.m, p.k, Memory::data_type::bf16, p.ta == Transpose::yes),
             db = of(p.k, p.n, Memory::data_type::bf16, p.tb == Transpose::yes),
             dc = of(p.m, p.n, Memory::data_type::f32, false);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul matmul(dnnl::matmul::primitive_desc(engine, da, db, dc));
#else
  const dnnl::matmul matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(da, db, dc), engine));
#endif
  Memory ma(da, engine, a.data()), mb(db, engine, b.data()), mc(dc, engine, c.data());
  for (auto _ : state) {
    matmul.execute(stream, {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}});
    stream.wait();
  }
  report(state, p, omp_get_max_threads(), base::DType::bf16);
}

}  // namespace

BENCHMARK(run_ours_bf16)
    ->ArgNames({"layer", "kind", "threads"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 8, 1), {0, 1, 2}, {1, 2, 4}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(run_library_bf16)
    ->ArgNames({"layer", "kind"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 8, 1), {0, 1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(run_ours)
    ->ArgNames({"layer", "kind", "threads"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 8, 1), {0, 1, 2}, {1, 2, 4}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(run_library)
    ->ArgNames({"layer", "kind"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 8, 1), {0, 1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
