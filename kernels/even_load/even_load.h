// The update of a gate's choice biases in auxiliary-loss-free load balancing.
#pragma once

#include "kernels/even_load/even_load_args.h"
#include "kernels/update/remainder.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Some of a layer's biases, [n]: in f32, or in bf16 with a remainder.
struct EvenedBiases {
  base::View bias;
  Remainder remainder = {};
  EvenedBiases(base::View f32) : bias(f32) {}
  EvenedBiases(base::View bf16, const Remainder& r) : bias(bf16), remainder(r) {}
};
// loads is f32 [n], whole numbers. A bias grows by `rate` where the load is below `mean` and falls by `rate` where it
// is above. `numbers` is in the Exec's device memory, or nullptr. If its `finite` is 0, nothing changes.
void even_load_update(tensor::Exec& exec, const EvenedBiases& biases, base::ConstView loads, double mean, float rate,
                      const StepNumbers* numbers);

}  // namespace trainyard::kernels
