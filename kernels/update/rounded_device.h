// RoundedFloat: f32 as a rule's sequence wants it (kernels/update/rule.h), on a GPU; and the types of states. Included
// by *_cuda.cu.
#pragma once

#include "kernels/gpu_device.h"

namespace trainyard::kernels {
namespace {

// The compiler contracts none of these operations.
struct RoundedFloat {
  float v;
  RoundedFloat() = default;
  __device__ explicit RoundedFloat(float x) : v(x) {}
  friend __device__ RoundedFloat operator+(RoundedFloat a, RoundedFloat b) { return RoundedFloat(__fadd_rn(a.v, b.v)); }
  friend __device__ RoundedFloat operator-(RoundedFloat a, RoundedFloat b) { return RoundedFloat(__fsub_rn(a.v, b.v)); }
  friend __device__ RoundedFloat operator*(RoundedFloat a, RoundedFloat b) { return RoundedFloat(__fmul_rn(a.v, b.v)); }
  friend __device__ RoundedFloat operator/(RoundedFloat a, RoundedFloat b) { return RoundedFloat(__fdiv_rn(a.v, b.v)); }
  friend __device__ bool operator<(RoundedFloat a, RoundedFloat b) { return a.v < b.v; }
  friend __device__ bool operator>(RoundedFloat a, RoundedFloat b) { return a.v > b.v; }
  friend __device__ RoundedFloat root(RoundedFloat a) { return RoundedFloat(__fsqrt_rn(a.v)); }
};

// Calls body(S*) with a null pointer of the type of states.
template <class Body> inline void with_type_of_states(Type type, const Body& body) {
  if (type == Type::bf16) body(static_cast<b16*>(nullptr));
  else body(static_cast<float*>(nullptr));
}

}  // namespace
}  // namespace trainyard::kernels
