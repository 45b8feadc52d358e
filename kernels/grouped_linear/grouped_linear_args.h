// Arguments of the linear layers of many experts as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/kernel_work.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// A GroupedView or ConstGroupedView (kernels/grouped_linear/grouped_linear.h) as plain data.
template <class Memory> struct GroupedMatOf {
  MatOf<Memory> first;
  std::int64_t stride = 0, count = 1;
  TRAINYARD_ANYWHERE bool empty() const { return first.empty(); }
  template <class T> TRAINYARD_ANYWHERE auto* data(std::int64_t g) const {
    return first.template ptr<T>() + (g % count) * stride;
  }
};
using GroupedMat = GroupedMatOf<void>;
using ConstGroupedMat = GroupedMatOf<const void>;

// Rows of group g: [ranges[2 g], ranges[2 g] + ranges[2 g + 1]). Only the kernels read the ranges.
struct GroupRanges {
  const std::int32_t* ranges = nullptr;
  std::int64_t groups = 0;
  TRAINYARD_ANYWHERE bool left_alone(std::int64_t g) const { return ranges[2 * g + 1] < 0; }  // by weight gradients
};

// c = bias + the sum over the parts of `a` W_g, or of `a` W_g^T with trans_b. k counts the steps of all parts.
struct GroupedLinearArgs {
  GroupRanges rows;
  ConstMat a[2];
  ConstGroupedMat b[2];
  int parts = 1, trans_b = 0;
  ConstGroupedMat bias;  // may be empty
  Mat c;
  std::int64_t k = 0, lanes = 1;
  int threads = 1;
  void* scratch = nullptr;
  TeamSeconds* team = nullptr;  // CPU: gets each thread's times; null: nobody measures
};

// dweight_g = dy_g^T x_g; dbias_g = the column sums of dy_g.
struct GroupedWeightArgs {
  GroupRanges rows;
  ConstMat dy, x;
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
