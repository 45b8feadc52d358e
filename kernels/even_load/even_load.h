// The update of a gate's choice biases in auxiliary-loss-free load balancing.
#pragma once

#include "kernels/even_load/even_load_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// bias is f32 [n], some of a layer's biases. loads is f32 [n], whole numbers. A bias grows by `rate` where the load is
// below `mean` and falls by `rate` where it is above. `numbers` is in the Exec's device memory, or nullptr. If its
// `finite` is 0, nothing changes.
void even_load_update(tensor::Exec& exec, base::View bias, base::ConstView loads, double mean, float rate,
                      const StepNumbers* numbers);

}  // namespace trainyard::kernels
