// Finds the first value that is not finite.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// The smallest logical index (row * cols + column) of a NaN or infinity, or -1 if there is none. Waits for the Exec.
std::int64_t first_nonfinite(tensor::Exec& exec, base::ConstView x);

}  // namespace trainyard::kernels
