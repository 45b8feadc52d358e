// Loss, gradient norm and clip factor of a step (Pascanu et al. 2013, algorithm 1). They are computed where the
// gradients are, so that an update need not wait for the host.
#pragma once

#include "kernels/step_numbers/step_numbers_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Overwrites *args.out, in the order of the Exec. All pointers are memory of the Exec's device. `finite` starts at 1
// before the first step. While it is 0, every update that reads these numbers leaves weights and optimizer states
// unchanged. With args.lasting it never returns from 0 to 1 once a number was not finite, so the host may learn of it a
// step later. An outlier does not last.
void step_numbers(tensor::Exec& exec, const StepNumbersArgs& args);

}  // namespace trainyard::kernels
