// The kernels of a GPU module as a table. An operation's x.cpp calls its entry where the Exec is a GPU's; its x_cuda.cu defines it.
#pragma once

#include "kernels/gpu_entries.h"
#include "libtrain/base/error.h"
#include "libtrain/tensor/exec.h"
#include "libtrain/tensor/gpu.h"

namespace trainyard::kernels {

// Every pointer in the arguments is device memory; `threads` does not matter. Work goes to `stream`. Text tells what could not be started.
struct GpuKernels {
  const char* (*activation)(const ActivationArgs&, void* stream);
  const char* (*adamw)(const AdamWArgs&, void* stream);
  const char* (*attention_forward)(const AttentionArgs&, void* stream);
  const char* (*attention_backward)(const AttentionArgs&, void* stream);
  const char* (*cached_attention)(const CachedAttentionArgs&, void* stream);
  const char* (*cast)(const CastArgs&, void* stream);
  const char* (*cross_entropy)(const CrossEntropyArgs&, void* stream);
  const char* (*sum_losses)(const SumLossesArgs&, void* stream);
  const char* (*dropout)(const DropoutArgs&, void* stream);
  const char* (*embedding_forward)(const EmbeddingArgs&, void* stream);
  const char* (*embedding_backward)(const EmbeddingArgs&, void* stream);
  const char* (*fold)(const FoldArgs&, void* stream);
  const char* (*gemm)(const GemmArgs&, void* stream);
  const char* (*column_sum)(const ColumnSumArgs&, void* stream);
  const char* (*norm_forward)(const NormArgs&, void* stream);
  const char* (*norm_backward)(const NormArgs&, void* stream);
  const char* (*rotary)(const RotaryGpuArgs&, void* stream);
  const char* (*square_sum)(const SquareSumGpuArgs&, void* stream);
  const char* (*square_sum_total)(const SquareSumTotalArgs&, void* stream);
  const char* (*step_numbers)(const StepNumbersArgs&, void* stream);
};

inline const GpuKernels& gpu_kernels() { return *static_cast<const GpuKernels*>(tensor::gpu_module().kernels); }

}  // namespace trainyard::kernels

// In x.cpp: TRAINYARD_CALL(exec, gelu, (a)) runs a on the device of the Exec: gpu_kernels().gelu, or the variant of gelu_cpu in use.
#define TRAINYARD_CALL(exec, name, args)                                                                             \
  do {                                                                                                               \
    if ((exec).on_gpu()) ::trainyard::tensor::require_gpu(gpu_kernels().name(args, (exec).stream()), #name " on the GPU"); \
    else TRAINYARD_CPU_CALL(name##_cpu, (args));                                                                     \
  } while (false)
