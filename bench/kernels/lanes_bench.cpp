// The cost of reduction lanes: products of a GPT-2 layer whose sums tensor-parallel ranks can share, in 1 lane and in
// 4. Both are timed in turns and their least times compared, so that other load on the machine affects both. One thread
// is timed by its processor time.
#include "bench/limits.h"
#include "kernels/linear/linear.h"
#include "libtrain/plan/blocks/scratch.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

using namespace trainyard;

namespace {

constexpr std::int64_t hidden = 768, ffn = 3072;
enum class Kind { forward, input_gradient };
// A product with `hidden` columns.
struct Product {
  const char* name;
  Kind kind;
  std::vector<std::int64_t> parts;
};
const Product products[] = {{"attention output, forward", Kind::forward, {hidden}},
                            {"feed-forward down, forward", Kind::forward, {ffn}},
                            {"q, k, v, input gradient", Kind::input_gradient, {hidden, hidden, hidden}},
                            {"feed-forward up, input gradient", Kind::input_gradient, {ffn}}};

base::View values(std::vector<char>& bytes, base::DType dtype, std::int64_t rows, std::int64_t cols) {
  bytes.resize(static_cast<std::size_t>(rows * cols * base::size_of(dtype)));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const auto v = static_cast<float>(i % 31) / 16 - 1;
    if (dtype == base::DType::f32) reinterpret_cast<float*>(bytes.data())[i] = v;
    else reinterpret_cast<base::bf16*>(bytes.data())[i] = base::bf16(v);
  }
  return {bytes.data(), dtype, {rows, cols}};
}

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
  const auto& p = products[state.range(0)];
  const auto n = state.range(1);
  const auto threads = static_cast<int>(state.range(2));
  const auto dtype = state.range(3) == 0 ? base::DType::f32 : base::DType::bf16;
  std::int64_t k = 0;
  for (auto part : p.parts) k += part;
  std::vector<char> xs, ws, ys, bs;
  const auto x = values(xs, dtype, n, k), bias = values(bs, dtype, 1, hidden), y = values(ys, dtype, n, hidden);
  const auto w = p.kind == Kind::forward ? values(ws, dtype, hidden, k) : values(ws, dtype, k, hidden);
  std::vector<kernels::LinearPart> parts;
  for (std::int64_t at = 0; auto part : p.parts) {
    if (p.kind == Kind::input_gradient) parts.push_back({x.columns(at, part), w.row_range(at, part)});
    at += part;
  }
  const auto bytes = plan::lane_gemm_scratch_bytes(n, hidden, k, static_cast<std::int64_t>(p.parts.size()), 4,
                                                   dtype == base::DType::bf16);
  tensor::Arena arena(tensor::Category::workspace, bytes);
  auto exec = tensor::Exec::caller(&arena, threads);
  const auto multiply = [&](std::int64_t lanes) {
    if (p.kind == Kind::forward) kernels::linear_forward_lanes(*exec, x, w, bias, lanes, y);
    else kernels::linear_backward_input_lanes(*exec, parts, lanes, y);
  };
  multiply(4), multiply(1);
  Times one{threads}, four{threads};
  for (auto _ : state) {
    double seconds = one.take([&] { multiply(1); });
    seconds += four.take([&] { multiply(4); });
    state.SetIterationTime(seconds);
  }
  state.SetLabel(p.name);
  state.counters["one_lane_ms"] = 1e3 * one.least;
  state.counters["four_lanes_ms"] = 1e3 * four.least;
  state.counters["ratio"] = four.least / one.least;
}

}  // namespace

BENCHMARK(run)
    ->ArgNames({"product", "rows", "threads", "bf16"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 3, 1), {1024, 2048, 4096}, {1, 2}, {0, 1}})
    ->UseManualTime()
    ->MinTime(2.0)
    ->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
