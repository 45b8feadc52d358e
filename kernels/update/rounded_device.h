// RoundedFloat: f32 as a rule's sequence wants it (kernels/update/rule.h), on a GPU. Included by *_cuda.cu.
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

}  // namespace
}  // namespace trainyard::kernels
