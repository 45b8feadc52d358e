// Arguments of the sum of squares, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/square_sum/fixed_point.h"

#include <cstdint>

namespace trainyard::kernels {

// Adds the squares of x[0, n) to limbs.
TRAINYARD_CPU_KERNEL(void, square_sum_cpu, (const float* x, std::int64_t n, std::int64_t* limbs, int threads))

}  // namespace trainyard::kernels
