// Arguments of the product as plain data, for the compiled variants, with the epilogues that linear layers fuse.
#pragma once

#include "kernels/activation/activation_form.h"
#include "kernels/dispatch.h"
#include "kernels/kernel_work.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct GemmPart {
  ConstMat a, b;
};

struct GemmArgs {
  ConstMat a, b;
  Mat c;
  int trans_a = 0, trans_b = 0;  // 1: transposed
  std::int64_t m = 0, n = 0, k = 0;
  // CPU only: further products over K that are added to the sum, and the lanes of the sum (kernels/linear/linear.h). k
  // counts the steps of all parts.
  GemmPart more[2];
  int parts = 1;  // this part and the parts of `more`
  std::int64_t lanes = 1;
  int accumulate = 0;
  ConstMat bias;                                 // [n], added to every row; may be empty
  Mat gelu;                                      // [m, n]: gets GELU of c; may be empty
  Activation gelu_form = Activation::gelu_tanh;  // a GPU has only the tanh form
  // GPU only; may be empty.
  ConstMat gelu_of;    // [m, n]: c is multiplied by gelu_tanh'(gelu_of)
  Mat sums, partials;  // [m]: gets the sums of op(a) over k; their scratch: [blocks of plan::column_sum_rows, m]
  int threads = 1;
  void* scratch = nullptr;
  TeamSeconds* team = nullptr;  // CPU: gets each thread's times; null: nobody measures
};

KernelWork work_of(const GemmArgs& g);

TRAINYARD_PRODUCT_KERNEL(void, gemm_cpu, (const GemmArgs& args))

}  // namespace trainyard::kernels
