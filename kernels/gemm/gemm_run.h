// Runs a product with its epilogue: the part that gemm and the linear layers share. Not for use outside kernels/.
#pragma once

#include "kernels/gemm/gemm_cpu.h"
#include "libtrain/plan/scratch.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Derives m, n and k from the operands, checks them, and takes scratch from the Exec; also `partials`, if sums are
// requested.
void run_gemm(tensor::Exec& exec, GemmArgs args);

}  // namespace trainyard::kernels
