// Runs a product with its epilogue: the part that gemm and the linear layers share. Not for use outside kernels/.
#pragma once

#include "kernels/gemm/gemm_cpu.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// What messages call a product and its operands.
struct ProductNames {
  const char *operation, *a, *b, *c;
};

// The arguments of c = op(a) op(b). Checks the types of the three views.
GemmArgs product_of(const ProductNames& names, const base::ConstView& a, int trans_a, const base::ConstView& b,
                    int trans_b, const base::View& c);

// Derives m, n and k from the operands, checks their shapes, and takes scratch from the Exec; also `partials`, if sums
// are requested. The caller checks epilogues, and the types of further parts.
void run_gemm(tensor::Exec& exec, GemmArgs args, const ProductNames& names);

}  // namespace trainyard::kernels
