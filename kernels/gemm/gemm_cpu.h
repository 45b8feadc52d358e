// The product as the compiled variants see it, with the epilogues that a linear layer fuses.
#pragma once

#include "kernels/activation/gelu.h"
#include "kernels/dispatch.h"
#include "kernels/kernel_work.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct GemmPart {
  Mat a, b;
};

struct GemmArgs {
  Mat a, b, c;
  int trans_a = 0, trans_b = 0;  // 1: transposed
  std::int64_t m = 0, n = 0, k = 0;
  // On the CPU only: more products over K whose sum is wanted (k is of all together), and the lanes of the sum
  // (kernels/linear/linear.h).
  GemmPart more[2];
  int parts = 1;  // this one and those of `more`
  std::int64_t lanes = 1;
  int accumulate = 0;
  Mat bias;                     // [n], added to every row; may be empty
  Mat gelu;                     // [m, n]: gets GELU of c; may be empty
  Gelu gelu_form = Gelu::tanh;  // on a GPU the tanh form alone
  // On a GPU only; may be empty.
  Mat gelu_of;         // [m, n]: c is multiplied with gelu_tanh'(of this)
  Mat sums, partials;  // [m]: gets the sums of op(a) over k; and scratch for them: [blocks of plan::column_sum_rows, m]
  int threads = 1;
  void* scratch = nullptr;
  TeamSeconds* team = nullptr;  // on the CPU: where each thread says what it did; null: nobody asks
};

KernelWork work_of(const GemmArgs& g);

TRAINYARD_PRODUCT_KERNEL(void, gemm_cpu, (const GemmArgs& args))

}  // namespace trainyard::kernels
