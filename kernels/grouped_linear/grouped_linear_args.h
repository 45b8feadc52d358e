// Linear layers of many experts as the compiled variants see them.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/kernel_work.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// GroupedView (kernels/grouped_linear/grouped_linear.h).
struct GroupedMat {
  Mat first;
  std::int64_t stride = 0, count = 1;
  TRAINYARD_ANYWHERE bool empty() const { return first.empty(); }
  template <class T> TRAINYARD_ANYWHERE T* data(std::int64_t g) const {
    return static_cast<T*>(first.data) + (g % count) * stride;
  }
};

// Rows of group g: [ranges[2 g], ranges[2 g] + ranges[2 g + 1]). Nobody but the compiled variants reads them.
struct GroupRanges {
  const std::int32_t* ranges = nullptr;
  std::int64_t groups = 0;
  TRAINYARD_ANYWHERE bool left_alone(std::int64_t g) const { return ranges[2 * g + 1] < 0; }  // by weight gradients
};

// c = the sum over the parts of a W_g, or of a W_g^T with trans_b, plus a bias. k: of all parts.
struct GroupedLinearArgs {
  GroupRanges rows;
  Mat a[2];
  GroupedMat b[2];
  int parts = 1, trans_b = 0;
  Mat c;
  GroupedMat bias;  // may be empty
  std::int64_t k = 0, lanes = 1;
  int threads = 1;
  void* scratch = nullptr;
  TeamSeconds* team = nullptr;  // on the CPU: where each thread says what it did; null: nobody asks
};

// dweight_g = dy_g^T x_g; dbias_g the column sums of dy_g.
struct GroupedWeightArgs {
  GroupRanges rows;
  Mat dy, x;
  GroupedMat dweight, dbias;  // dbias may be empty
  int threads = 1;
  void* scratch = nullptr;
  TeamSeconds* team = nullptr;
};

KernelWork work_of(const GroupedLinearArgs& g);
KernelWork work_of(const GroupedWeightArgs& g);

TRAINYARD_PRODUCT_KERNEL(void, grouped_linear_cpu, (const GroupedLinearArgs& args))
TRAINYARD_PRODUCT_KERNEL(void, grouped_weight_cpu, (const GroupedWeightArgs& args))

}  // namespace trainyard::kernels
