// Epilogues of a product, one after the other.
#include "kernels/gemm/gemm_epilogue.h"
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void bias_kernel(GemmArgs g) {
  const T* bias = g.bias.ptr<T>();
  TRAINYARD_EACH(i, g.m * g.n) {
    const auto [r, c] = place_of(i, g.n);
    T* at = g.c.row<T>(r) + c;
    store(at, widen(*at) + widen(bias[c]));
  }
}

}  // namespace

const char* gpu::gemm_epilogue(const GemmArgs& g, void* stream) {
  if (!g.bias.empty()) {
    with_type(g.c.type,
              [&]<class T>(T*) { TRAINYARD_LAUNCH(bias_kernel<T>, false, blocks_for(g.m * g.n), 256, stream, g); });
    if (const auto* failure = launch_failure()) return failure;
  }
  if (!g.gelu.empty())
    if (const auto* failure = gpu::activation({.form = Activation::gelu_tanh, .x = g.c, .y = g.gelu}, stream))
      return failure;
  if (!g.gelu_of.empty())
    if (const auto* failure =
            gpu::activation({.form = Activation::gelu_tanh, .x = g.gelu_of, .dy = g.c, .y = g.c}, stream))
      return failure;
  return g.sums.empty() ? nullptr : gpu::column_sum({.x = g.a, .sums = g.sums, .partials = g.partials}, stream);
}

}  // namespace trainyard::kernels
