// What is told of a gate: how many tokens its experts got, and its losses, as whole numbers, so that sums over
// micro-batches and ranks do not depend on their order.
#pragma once

#include "kernels/gate_record/gate_record_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Adds to `record`, i64 [at least gate_record_sums + E]: places that were given; balance loss, z loss and entropy, each
// times the target tokens of the gate group, in units of 2^-20, rounded to nearest, 0 for what is not finite; these
// target tokens; then the choices of each expert before dropping. `groups`, `loads` and `losses` are a gate's
// (kernels/gate), `targets` f64 [1] in the device's memory.
void gate_record(tensor::Exec& exec, base::View groups, base::View loads, base::View losses, const double* targets,
                 base::View record);

// out T [E]: the choices of each expert before dropping, `loads` those of a gate. What moves the bias of a gate folds
// these in place of a gradient (plan::Update::even_load).
void gate_loads(tensor::Exec& exec, base::View loads, base::View out);

}  // namespace trainyard::kernels
