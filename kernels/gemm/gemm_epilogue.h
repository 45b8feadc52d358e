// GPU kernels that follow a product: for shapes and types that cuBLASLt does not fuse, and for the emulated module.
#pragma once

#include "kernels/gemm/gemm_cpu.h"

namespace trainyard::kernels::gpu {

// Runs the requested steps after c = op(a) op(b): adds the bias, computes GELU, multiplies by the slope at gelu_of,
// sums op(a).
const char* gemm_epilogue(const GemmArgs& g, void* stream);

}  // namespace trainyard::kernels::gpu
