// The product of the emulated module: a plain loop in double, rounded once to the result's dtype. So it can serve as a
// reference, too.
#include "kernels/gemm/gemm_epilogue.h"
#include "kernels/gpu_kernels.h"
#include "tests/emulated/stream.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace trainyard::kernels {

namespace {

double element(const ConstMat& m, std::int64_t r, std::int64_t c) {
  if (m.type == Type::f32) return m.row<float>(r)[c];
  if (m.type == Type::f64) return m.row<double>(r)[c];
  if (m.type == Type::f16) return static_cast<float>(m.row<base::f16>(r)[c]);
  return static_cast<float>(m.row<base::bf16>(r)[c]);
}

void store(const Mat& m, std::int64_t r, std::int64_t c, double v) {
  if (m.type == Type::f32) m.row<float>(r)[c] = static_cast<float>(v);
  else if (m.type == Type::f64) m.row<double>(r)[c] = v;
  else if (m.type == Type::f16) m.row<base::f16>(r)[c] = base::f16(static_cast<float>(v));
  else m.row<base::bf16>(r)[c] = base::bf16(static_cast<float>(v));
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

void multiply(const GemmArgs& g, bool fused) {
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      double sum = g.accumulate ? element(g.c, i, j) : 0.0;
      for (std::int64_t k = 0; k < g.k; ++k)
        sum += (g.trans_a ? element(g.a, k, i) : element(g.a, i, k)) *
               (g.trans_b ? element(g.b, j, k) : element(g.b, k, j));
      if (fused && !g.bias.empty()) sum += element(g.bias, 0, j);
      if (fused && !g.gelu_of.empty()) sum *= gelu_slope(element(g.gelu_of, i, j));
      store(g.c, i, j, sum);
      if (fused && !g.gelu.empty()) store(g.gelu, i, j, gelu(sum));
    }
  for (std::int64_t i = 0; fused && !g.sums.empty() && i < g.m; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < g.k; ++k) sum += g.trans_a ? element(g.a, k, i) : element(g.a, i, k);
    store(g.sums, 0, i, sum);
  }
}

}  // namespace

// TRAINYARD_EMULATED_EPILOGUES=apart: as if cuBLASLt fused nothing.
const char* gpu::gemm(const GemmArgs& g, void* stream) {
  const char* wish = std::getenv("TRAINYARD_EMULATED_EPILOGUES");
  const bool fused = wish == nullptr || std::strcmp(wish, "apart") != 0;
  emulator::submit(stream, [=] { multiply(g, fused); });
  return fused ? nullptr : gpu::gemm_epilogue(g, stream);
}

}  // namespace trainyard::kernels
