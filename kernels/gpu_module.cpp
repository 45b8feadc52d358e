// The GPU module's one symbol: its runtime and its kernels. Part of the modules only.
#include "kernels/gpu_kernels.h"
#include "libtrain/tensor/gpu_runtime.h"

namespace trainyard::kernels {

namespace {

const GpuKernels table{gpu::activation,        gpu::adamw,   gpu::attention_forward,   gpu::attention_backward, gpu::cached_attention, gpu::cast,
                       gpu::cross_entropy,     gpu::sum_losses, gpu::dropout, gpu::embedding_forward,   gpu::embedding_backward, gpu::fold,             gpu::gemm,
                       gpu::column_sum,        gpu::norm_forward, gpu::norm_backward,  gpu::rotary,             gpu::square_sum,
                       gpu::square_sum_total,  gpu::step_numbers};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tensor::GpuModule* trainyard_gpu_module() {
  static const tensor::GpuModule module{tensor::gpu_abi, &tensor::gpu_runtime(), &table};
  return &module;
}

}  // namespace trainyard::kernels
