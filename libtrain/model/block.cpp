// What blocks see of a step.
#include "libtrain/model/block.h"

namespace trainyard::model {

// The binding fails to compile when a field is added that is not handed on here.
Step step_of_source(Step& s) {
  auto& [exec, store, micro, dtype, seed, pass, loss_sum, target_count, loss_place, past, collectives, experts, output,
         recompute, weight_gradients, adapter, adapter_gradients, relative_positions, relative_positions_gradients,
         lists, gate_records, loss_scale, label_smoothing, inputs, chunk, slot, sequence_losses, memory,
         memory_gradient] = s;
  TRAINYARD_ASSERT(micro.source != nullptr, "an encoder runs, and the micro-batch has no sources");
  return {exec,
          store,
          *micro.source,
          dtype,
          seed,
          pass,
          0,
          0,
          {},
          {},
          collectives,
          experts,
          output,
          recompute,
          weight_gradients,
          adapter,
          adapter_gradients,
          relative_positions,
          relative_positions_gradients,
          lists,
          gate_records,
          loss_scale,
          label_smoothing,
          inputs,
          chunk,
          slot,
          {},
          {},
          {}};
}

}  // namespace trainyard::model
