// The record of a gate for metrics: its experts' tokens and its losses, as whole numbers. So sums over micro-batches
// and ranks do not depend on their order.
#pragma once

#include "kernels/gate_record/gate_record_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Adds to `record`, i64 with at least gate_record_sums + E numbers, in this order. First the places given to choices.
// Then balance loss, z loss and entropy, each times the gate group's target tokens, rounded to units of 2^-20; a loss
// that is not finite adds 0. Then these target tokens. Then the choices of each expert before dropping. `groups`,
// `loads` and `losses` come from a gate (kernels/gate). `targets` is f64 [1] in the device's memory.
void gate_record(tensor::Exec& exec, base::ConstView groups, base::ConstView loads, base::ConstView losses,
                 const double* targets, base::View record);

// out is [E] in f32 or f64: the choices of each expert before dropping, from a gate's `loads`. The bias of a gate
// accumulates them in place of a gradient (plan::Update::even_load).
void gate_loads(tensor::Exec& exec, base::ConstView loads, base::View out);

}  // namespace trainyard::kernels
