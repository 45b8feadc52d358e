// RoundedFloat: f32 as a rule's sequence wants it (kernels/update/rule.h). Included only by *_cpu.cpp, once per
// instruction set.
#pragma once

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// These sources are compiled without contraction (-ffp-contract=off).
struct RoundedFloat {
  float v;
  RoundedFloat() = default;
  explicit RoundedFloat(float x) : v(x) {}
  friend RoundedFloat operator+(RoundedFloat a, RoundedFloat b) { return RoundedFloat(a.v + b.v); }
  friend RoundedFloat operator-(RoundedFloat a, RoundedFloat b) { return RoundedFloat(a.v - b.v); }
  friend RoundedFloat operator*(RoundedFloat a, RoundedFloat b) { return RoundedFloat(a.v * b.v); }
  friend RoundedFloat operator/(RoundedFloat a, RoundedFloat b) { return RoundedFloat(a.v / b.v); }
  friend bool operator<(RoundedFloat a, RoundedFloat b) { return a.v < b.v; }
  friend bool operator>(RoundedFloat a, RoundedFloat b) { return a.v > b.v; }
  friend RoundedFloat root(RoundedFloat a) { return RoundedFloat(sqrt_of(a.v)); }
};

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
