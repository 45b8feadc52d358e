// The GPU module's one exported symbol: its runtime and its kernels. Only the modules contain this file.
#include "kernels/gpu_kernels.h"
#include "libtrain/tensor/gpu_runtime.h"

#ifndef TRAINYARD_GPU_ARCHITECTURES
#define TRAINYARD_GPU_ARCHITECTURES ""  // the emulated module
#endif

namespace trainyard::kernels {

namespace {

#define TRAINYARD_GPU_ENTRY(name, Args) gpu::name,
const GpuKernels table{TRAINYARD_GPU_OPERATIONS(TRAINYARD_GPU_ENTRY)};
#undef TRAINYARD_GPU_ENTRY

}  // namespace

extern "C" __attribute__((visibility("default"))) const tensor::GpuModule* trainyard_gpu_module() {
  static const tensor::GpuModule module{tensor::gpu_abi, &tensor::gpu_runtime(), &table, TRAINYARD_GPU_ARCHITECTURES};
  return &module;
}

}  // namespace trainyard::kernels
