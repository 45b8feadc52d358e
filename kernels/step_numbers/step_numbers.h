// Loss, norm and clip factor of a step (Pascanu et al. 2013, algorithm 1), made where the gradients are, so that an
// update need not wait for the host.
#pragma once

#include "kernels/step_numbers/step_numbers_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Overwrites *args.out, in the order of the Exec. All pointers are memory of the Exec's device. `finite` can only fall:
// it is 1 before the first step, and once it is 0 every update that reads these numbers leaves weights and states as
// they are, so that the host may learn of it a step later.
void step_numbers(tensor::Exec& exec, const StepNumbersArgs& args);

}  // namespace trainyard::kernels
