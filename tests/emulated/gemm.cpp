// The product of the emulated module: a plain loop, in double, rounded once to the result's dtype; so it can serve as a reference too.
#include "kernels/gpu_kernels.h"
#include "tests/emulated/stream.h"

#include <cstring>

namespace trainyard::kernels {

namespace {

double element(const Mat& m, std::int64_t r, std::int64_t c) {
  if (m.type == Type::f32) return m.row<float>(r)[c];
  if (m.type == Type::f64) return m.row<double>(r)[c];
  return static_cast<float>(m.row<base::bf16>(r)[c]);
}

void store(const Mat& m, std::int64_t r, std::int64_t c, double v) {
  if (m.type == Type::f32) m.row<float>(r)[c] = static_cast<float>(v);
  else if (m.type == Type::f64) m.row<double>(r)[c] = v;
  else m.row<base::bf16>(r)[c] = base::bf16(static_cast<float>(v));
}

void multiply(const GemmArgs& g) {
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      double sum = g.accumulate ? element(g.c, i, j) : 0.0;
      for (std::int64_t k = 0; k < g.k; ++k) sum += (g.trans_a ? element(g.a, k, i) : element(g.a, i, k)) * (g.trans_b ? element(g.b, j, k) : element(g.b, k, j));
      if (!g.bias.empty()) sum += element(g.bias, 0, j);
      store(g.c, i, j, sum);
    }
}

}  // namespace

const char* gpu::gemm(const GemmArgs& g, void* stream) {
  emulator::submit(stream, [=] { multiply(g); });
  if (g.gelu.empty()) return nullptr;
  return gpu::activation({ActivationKernel::gelu_forward, g.c, {}, {}, g.gelu, {}, 1}, stream);
}

}  // namespace trainyard::kernels
