// The kernels of a GPU module as a table. An operation's x_cuda.cu defines its entry; its x.cpp calls the entry if the
// Exec is a GPU's.
#pragma once

#include "kernels/call.h"
#include "kernels/gpu_entries.h"
#include "libtrain/base/error.h"
#include "libtrain/tensor/exec.h"
#include "libtrain/tensor/gpu.h"

namespace trainyard::kernels {

// One pointer for each function of the module (kernels/gpu_entries.h).
struct GpuKernels {
#define TRAINYARD_GPU_POINTER(name, Args) const char* (*name)(const Args&, void* stream);
  TRAINYARD_GPU_OPERATIONS(TRAINYARD_GPU_POINTER)
#undef TRAINYARD_GPU_POINTER
};

inline const GpuKernels& gpu_kernels() { return *static_cast<const GpuKernels*>(tensor::gpu_module().kernels); }

}  // namespace trainyard::kernels

// In x.cpp: TRAINYARD_CALL(exec, activation, a) runs the operation on the Exec's device. That is
// gpu_kernels().activation on a GPU, otherwise the variant of activation_cpu in use.
#define TRAINYARD_CALL(exec, name, args)                                                                \
  do {                                                                                                  \
    if ((exec).on_gpu())                                                                                \
      ::trainyard::tensor::require_gpu(gpu_kernels().name(args, (exec).stream()), #name " on the GPU"); \
    else TRAINYARD_CPU_CALL(name##_cpu, (args));                                                        \
  } while (false)
