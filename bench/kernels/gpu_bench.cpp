// GPU kernels. Products and attention: FLOP/s, as a fraction of the best product in this run. Memory-bound kernels:
// bytes a second, as a fraction of a copy.
#include "bench/limits.h"
#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/cast/cast.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/dropout/dropout.h"
#include "kernels/gemm/gemm.h"
#include "kernels/norm/norm.h"
#include "kernels/ordered_sum/ordered_sum.h"
#include "kernels/square_sum/square_sum.h"
#include "kernels/update/update.h"
#include "libtrain/base/random.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/tensor/gpu.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

namespace {

using namespace trainyard;
using base::View;

struct Gpu {
  Gpu()
      : scratch(tensor::Category::workspace, std::int64_t{512} << 20, {base::DeviceKind::cuda, 0}),
        memory(tensor::Category::activations, std::int64_t{4} << 30, {base::DeviceKind::cuda, 0}),
        exec(tensor::Exec::gpu(0, &scratch)), pattern(memory.allocate(base::DType::f32, {std::int64_t{1} << 22})) {
    std::vector<float> host(static_cast<std::size_t>(pattern.count()));
    base::fill_normal(host.data(), pattern.count(), 1, "bench", 0, 1.0);
    tensor::copy(*exec, View::of(host.data(), {pattern.count()}), pattern);
    exec->synchronize();
  }
  // Random values: a chip that multiplies the same number again and again takes less power, and runs faster, than in
  // real work.
  View values(base::DType t, std::initializer_list<std::int64_t> shape) {
    auto v = memory.allocate(t, shape);
    const auto flat = v.reshaped({v.count()});
    for (std::int64_t at = 0; at < v.count(); at += pattern.count()) {
      const auto n = std::min(pattern.count(), v.count() - at);
      kernels::cast(*exec, View(pattern.ptr<float>(), base::DType::f32, {n}, pattern.device),
                    View(static_cast<char*>(flat.data) + at * base::size_of(t), t, {n}, flat.device));
    }
    return v;
  }
  tensor::Arena scratch, memory;
  std::unique_ptr<tensor::Exec> exec;
  View pattern;
};

Gpu& gpu() {
  static Gpu one;
  return one;
}

// Seconds of one call, from twenty calls in a row between two waits.
template <class Work> double seconds_of(const Work& work) {
  for (int i = 0; i < 3; ++i) work();
  gpu().exec->synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) work();
  gpu().exec->synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 20;
}

double product_seconds(std::int64_t m, std::int64_t n, std::int64_t k) {
  tensor::ArenaScope scope(gpu().memory);
  const auto a = gpu().values(base::DType::bf16, {m, k}), b = gpu().values(base::DType::bf16, {n, k}),
             c = gpu().values(base::DType::bf16, {m, n});
  return seconds_of([&] {
    kernels::gemm(*gpu().exec,
                  {.a = a, .b = b, .trans_a = kernels::Transpose::no, .trans_b = kernels::Transpose::yes, .c = c});
  });
}
double product_limit() { return bench::limit("arithmetic.bf16", 1, {base::DeviceKind::cuda, 0}); }
double copy_limit() { return bench::limit("memory.copy", 1, {base::DeviceKind::cuda, 0}); }

void finish(benchmark::State& state, const char* unit, double work, double limit, double seconds) {
  for (auto _ : state) state.SetIterationTime(seconds);
  state.counters[unit] = work / seconds;
  state.counters["of_limit"] = work / seconds / limit;
}

void product(benchmark::State& state) {
  const auto m = state.range(0), n = state.range(1), k = state.range(2);
  finish(state, "FLOP/s", 2.0 * static_cast<double>(m * n * k), product_limit(), product_seconds(m, n, k));
}

enum class Pass { forward, backward };
void attention(benchmark::State& state, Pass pass) {
  const std::int64_t T = state.range(0), d = state.range(1), batch = 16384 / T, heads = 2048 / d, n = batch * T,
                     h = heads * d;
  tensor::ArenaScope scope(gpu().memory);
  const auto make = [&] { return gpu().values(base::DType::bf16, {n, h}); };
  const auto q = make(), k = make(), v = make(), out = make(), dout = make(), dq = make(), dk = make(), dv = make();
  const auto lse = gpu().values(base::DType::f32, {batch * heads, T});
  const auto start = gpu().memory.allocate(base::DType::i32, {batch, T});
  tensor::clear(*gpu().exec, start);
  const kernels::AttentionShape shape{batch, T, heads, heads, d, 1 / std::sqrt(static_cast<double>(d))};
  kernels::attention_forward(*gpu().exec,
                             {.shape = shape, .q = q, .k = k, .v = v, .document_start = start, .out = out, .lse = lse});
  const double seconds = seconds_of([&] {
    if (pass == Pass::forward)
      kernels::attention_forward(
          *gpu().exec, {.shape = shape, .q = q, .k = k, .v = v, .document_start = start, .out = out, .lse = lse});
    else
      kernels::attention_backward(*gpu().exec, {.shape = shape,
                                                .q = q,
                                                .k = k,
                                                .v = v,
                                                .document_start = start,
                                                .out = out,
                                                .lse = lse,
                                                .dout = dout,
                                                .dq = dq,
                                                .dk = dk,
                                                .dv = dv});
  });
  // Causal attention: half of the square is computed and counted, as in PyTorch's and cuDNN's figures.
  finish(state, "FLOP/s", (pass == Pass::forward ? 2 : 5) * 2.0 * static_cast<double>(batch * heads * T * T * d) / 2,
         product_limit(), seconds);
}

void adamw(benchmark::State& state) {
  tensor::ArenaScope scope(gpu().memory);
  const std::int64_t n = std::int64_t{64} << 20;
  const auto p = gpu().values(base::DType::f32, {n}), g = gpu().values(base::DType::f32, {n}),
             m = gpu().values(base::DType::f32, {n}), v = gpu().values(base::DType::f32, {n});
  const auto w = gpu().values(base::DType::bf16, {n});
  kernels::AdamW hyper;
  hyper.learning_rate = 1e-3f;
  finish(state, "bytes/s", 30.0 * static_cast<double>(n), copy_limit(), seconds_of([&] {
           kernels::update(*gpu().exec, {.rule = hyper, .gradient = g, .parameter = p, .states = {m, v}, .working = w});
         }));
}

void layer_norm(benchmark::State& state) {
  tensor::ArenaScope scope(gpu().memory);
  const std::int64_t n = 32768, h = 1600;
  const auto x = gpu().values(base::DType::bf16, {n, h}), y = gpu().values(base::DType::bf16, {n, h}),
             w = gpu().values(base::DType::bf16, {h}), b = gpu().values(base::DType::bf16, {h});
  const auto mean = gpu().values(base::DType::f32, {n}), rstd = gpu().values(base::DType::f32, {n});
  finish(state, "bytes/s", 4.0 * static_cast<double>(n * h), copy_limit(), seconds_of([&] {
           kernels::layer_norm_forward(
               *gpu().exec, {.x = x, .weight = w, .bias = b, .epsilon = 1e-5, .y = y, .mean = mean, .rstd = rstd});
         }));
}

void norm_of_sum(benchmark::State& state) {
  tensor::ArenaScope scope(gpu().memory);
  const std::int64_t n = 32768, h = 1600;
  const auto make = [&](std::int64_t rows) { return gpu().values(base::DType::bf16, {rows, h}); };
  const auto residual = make(n), branch = make(n), sum = make(n), y = make(n), w = make(1).reshaped({h}),
             b = make(1).reshaped({h});
  const auto mean = gpu().values(base::DType::f32, {n}), rstd = gpu().values(base::DType::f32, {n});
  finish(state, "bytes/s", 8.0 * static_cast<double>(n * h), copy_limit(), seconds_of([&] {
           kernels::layer_norm_residual_forward(*gpu().exec, {.residual = residual,
                                                              .branch = branch,
                                                              .dropout = kernels::Dropout{},
                                                              .weight = w,
                                                              .bias = b,
                                                              .epsilon = 1e-5,
                                                              .sum = sum,
                                                              .y = y,
                                                              .mean = mean,
                                                              .rstd = rstd});
         }));
}

void norm_gradient(benchmark::State& state) {
  tensor::ArenaScope scope(gpu().memory);
  const std::int64_t n = 32768, h = 1600;
  const auto make = [&](std::int64_t rows) { return gpu().values(base::DType::bf16, {rows, h}); };
  const auto dy = make(n), x = make(n), dx = make(n), w = make(1).reshaped({h});
  const auto mean = gpu().values(base::DType::f32, {n}), rstd = gpu().values(base::DType::f32, {n}),
             dw = gpu().values(base::DType::f32, {h}), db = gpu().values(base::DType::f32, {h});
  // dy and x are read for the sums and again for the gradient; dx is read and written.
  finish(state, "bytes/s", 12.0 * static_cast<double>(n * h), copy_limit(), seconds_of([&] {
           kernels::layer_norm_backward(
               *gpu().exec,
               {.dy = dy, .x = x, .weight = w, .mean = mean, .rstd = rstd, .dx = dx, .dweight = dw, .dbias = db});
         }));
}

void gelu(benchmark::State& state) {
  tensor::ArenaScope scope(gpu().memory);
  const std::int64_t n = 32768, f = 6400;
  const auto x = gpu().values(base::DType::bf16, {n, f}), y = gpu().values(base::DType::bf16, {n, f});
  finish(state, "bytes/s", 4.0 * static_cast<double>(n * f), copy_limit(),
         seconds_of([&] { kernels::activation_forward(*gpu().exec, kernels::Activation::gelu_tanh, x, y); }));
}

void swiglu(benchmark::State& state, Pass pass) {
  tensor::ArenaScope scope(gpu().memory);
  const std::int64_t n = 16384, f = 5632;
  const auto make = [&] { return gpu().values(base::DType::bf16, {n, f}); };
  const auto gate = make(), up = make(), y = make(), dy = make(), dgate = make(), dup = make();
  finish(state, "bytes/s", (pass == Pass::forward ? 6.0 : 10.0) * static_cast<double>(n * f), copy_limit(),
         seconds_of([&] {
           if (pass == Pass::forward) kernels::gated_forward(*gpu().exec, kernels::Activation::silu, gate, up, y);
           else
             kernels::gated_backward(
                 *gpu().exec,
                 {.form = kernels::Activation::silu, .gate = gate, .up = up, .dy = dy, .dgate = dgate, .dup = dup});
         }));
}

void cross_entropy(benchmark::State& state) {
  tensor::ArenaScope scope(gpu().memory);
  const std::int64_t n = 1024, v = 50304;
  const auto logits = gpu().values(base::DType::f32, {n, v}), gradient = gpu().values(base::DType::bf16, {n, v}),
             losses = gpu().values(base::DType::f64, {n});
  const auto targets = gpu().memory.allocate(base::DType::i32, {n}),
             weights = gpu().memory.allocate(base::DType::u8, {n});
  const std::vector<std::uint8_t> ones(static_cast<std::size_t>(n), 1);
  tensor::clear(*gpu().exec, targets);
  tensor::copy(*gpu().exec, View::of(ones.data(), {n}), weights);
  // Logits are read twice, the gradient is written once.
  finish(state, "bytes/s", 10.0 * static_cast<double>(n * v), copy_limit(), seconds_of([&] {
           kernels::cross_entropy_chunk(*gpu().exec, {.logits = logits,
                                                      .targets = targets,
                                                      .weights = weights,
                                                      .vocabulary = 50257,
                                                      .losses = losses,
                                                      .dlogits = gradient});
         }));
}

void square_sum(benchmark::State& state) {
  tensor::ArenaScope scope(gpu().memory);
  const std::int64_t n = std::int64_t{128} << 20;
  const base::ConstView x = gpu().values(base::DType::f32, {n});
  const auto limbs = gpu().memory.allocate(base::DType::i64, {21});
  finish(state, "bytes/s", 4.0 * static_cast<double>(n), copy_limit(),
         seconds_of([&] { kernels::square_sum(*gpu().exec, std::span(&x, 1), limbs); }));
}

BENCHMARK(product)
    ->ArgNames({"m", "n", "k"})
    ->Args({8192, 8192, 8192})
    ->Args({8192, 2304, 768})
    ->Args({8192, 3072, 768})
    ->Args({8192, 768, 3072})
    ->Args({8192, 6400, 1600})
    ->Args({8192, 1600, 6400})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(attention, forward, Pass::forward)
    ->ArgNames({"T", "d"})
    ->ArgsProduct({{1024, 2048, 4096}, {64, 128}})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(attention, backward, Pass::backward)
    ->ArgNames({"T", "d"})
    ->ArgsProduct({{1024, 2048, 4096}, {64, 128}})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(adamw)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(layer_norm)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(norm_of_sum)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(norm_gradient)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(gelu)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(swiglu, forward, Pass::forward)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(swiglu, backward, Pass::backward)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(cross_entropy)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(square_sum)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  if (!tensor::gpu_available()) {
    std::fprintf(stderr, "bench_kernels_gpu: no GPU\n");
    return 4;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
