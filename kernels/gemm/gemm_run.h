// Runs a product with epilogue: the shared end of gemm and the linear layers. Not for use outside kernels/.
#pragma once

#include "kernels/gemm/gemm_cpu.h"
#include "libtrain/plan/scratch.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Derives m, n, k from the operands, checks them, takes scratch from the Exec; partials too, where sums are asked for.
void run_gemm(tensor::Exec& exec, GemmArgs args);

}  // namespace trainyard::kernels
