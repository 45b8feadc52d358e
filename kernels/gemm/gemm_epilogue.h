// What follows a product on a GPU, in kernels of its own: for shapes and types that cuBLASLt does not fuse, and for the
// emulated module.
#pragma once

#include "kernels/gemm/gemm_cpu.h"

namespace trainyard::kernels::gpu {

// After c = op(a) op(b): adds bias, makes gelu, multiplies by the slope at gelu_of, sums op(a): what is asked for.
const char* gemm_epilogue(const GemmArgs& g, void* stream);

}  // namespace trainyard::kernels::gpu
