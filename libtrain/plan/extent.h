// How large a plan is at most, before the exact formulas, which count in 64 bits, may be asked.
#pragma once

#include "libtrain/plan/plan.h"

namespace trainyard::plan {

// Upper bounds in floating point, which cannot overflow: of the bytes of one rank, and of the bytes that one rank sends
// in a step. Within a factor of some dozens.
struct Extent {
  double memory = 0, traffic = 0;
};
Extent extent(const Plan& plan);

// Below this the formulas of memory, activations, workspace and traffic stay far inside 64 bits, and inside what a
// plan's file may hold.
inline constexpr double largest_extent = 0x1p56;

}  // namespace trainyard::plan
