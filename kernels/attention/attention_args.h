// Arguments of attention as plain data, for the compiled variants.
#pragma once

#include "kernels/attention/attention_shape.h"
#include "kernels/dispatch.h"
#include "kernels/kernel_work.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// The reach where there is no window: above the length of every sequence.
inline constexpr std::int64_t any_reach = std::int64_t{1} << 30;

// What both passes read.
struct AttentionArgs : AttentionShape {
  std::uint32_t threshold = 0;  // dropout: a pair is kept if its word is at least this; 0: no dropout
  float keep_scale = 1;
  const std::int32_t* document_start = nullptr;
  ConstMat q, k, v;
  int threads = 1;
  // CPU: `scratch` has scratch_part bytes for each thread. `shared` has shared_part bytes for each of `slots` key-value
  // heads; threads work on that many heads at a time.
  char *scratch = nullptr, *shared = nullptr;
  std::int64_t scratch_part = 0, shared_part = 0, slots = 0;
  int products = 0;             // of each pair of a query and a key, of head_dim multiply-adds: 2 forward, 5 backward
  TeamSeconds* team = nullptr;  // CPU: gets each thread's times; null: nobody measures
  bool hopper = false;          // GPU: use the kernels for Hopper where they fit (base::hopper_wanted)
  std::int64_t reach = any_reach;  // how many places from a query the farthest keys are that it may see
  std::int64_t keys = 0;           // of each sequence
};
struct AttentionForwardArgs : AttentionArgs {
  Mat out, lse;
};
struct AttentionBackwardArgs : AttentionArgs {
  ConstMat out, lse, dout;
  Mat dq, dk, dv;
  Mat d_bias;  // empty: nobody wants it
};
KernelWork work_of(const AttentionForwardArgs& a);
KernelWork work_of(const AttentionBackwardArgs& a);

TRAINYARD_PRODUCT_KERNEL(void, attention_forward_cpu, (const AttentionForwardArgs& args))
TRAINYARD_PRODUCT_KERNEL(void, attention_backward_cpu, (const AttentionBackwardArgs& args))
// The f64 form of the two above.
TRAINYARD_CPU_KERNEL(void, attention_exact_forward_cpu, (const AttentionForwardArgs& args))
TRAINYARD_CPU_KERNEL(void, attention_exact_backward_cpu, (const AttentionBackwardArgs& args))

}  // namespace trainyard::kernels
