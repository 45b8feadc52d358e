// The step of the biases by which a gate chooses: towards an even load.
#pragma once

#include "kernels/even_load/even_load_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// bias f32 [n], some of a layer's: plus `rate` where loads f32 [n], whole numbers, are below `mean`, minus `rate` where
// they are above it. Nothing where `numbers`, in the memory of the Exec's device or nullptr, are not finite.
void even_load_update(tensor::Exec& exec, base::View bias, base::View loads, double mean, float rate,
                      const StepNumbers* numbers);

}  // namespace trainyard::kernels
