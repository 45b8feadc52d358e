// Upper bounds for the size of a plan. They are checked before the exact formulas, which count in 64 bits, are called.
#pragma once

#include "libtrain/plan/plan.h"

namespace trainyard::plan {

// Upper bounds in floating point, which cannot overflow: the bytes of one rank's memory, and the bytes that one rank
// sends in a step. They exceed the exact numbers by a factor of some dozens at most.
struct Extent {
  double memory = 0, traffic = 0;
};
Extent extent(const Plan& plan);

// Below this bound the formulas of memory, activations, workspace and traffic stay far inside 64 bits, and inside what
// a plan's file may hold.
inline constexpr double largest_extent = 0x1p56;

}  // namespace trainyard::plan
