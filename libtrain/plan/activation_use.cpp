// Bytes of inputs of layers on disk.
#include "libtrain/plan/activation_use.h"

namespace trainyard::plan {

ActivationOffload activation_offload_of_stage(const Plan& plan, int stage) {
  if (plan.offload.activations.place == Place::device) return {};
  return {plan.part_of_stage(stage), plan.micro(), plan.offload.activations, plan.recompute,
          slots_of_stage(plan, stage)};
}

base::StorageTotals activations_of_step(const Plan& plan, int stage, std::int64_t sequences, int reduction_position) {
  return activation_offload_of_stage(plan, stage)
      .step_bytes(plan.batch().of_size(sequences).micros_of(reduction_position));
}

LinkBytes activation_link_of_step(const Plan& plan, int stage, std::int64_t sequences, int reduction_position) {
  return activation_offload_of_stage(plan, stage)
      .step_link(plan.batch().of_size(sequences).micros_of(reduction_position));
}

}  // namespace trainyard::plan
