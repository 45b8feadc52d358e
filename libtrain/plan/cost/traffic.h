// Formulas for the traffic of one rank in one optimizer step, for each operation of a group: what the communicator's
// ledger will read.
#pragma once

#include "libtrain/plan/cost/sized_calls.h"
#include "libtrain/plan/cost/states.h"
#include "libtrain/plan/schedule/stages.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Every call of a training step, without validation, in the groups of flat groups. Each accumulation step reduces every
// flat group once for each occurrence (a tied table twice). ZeRO stages 0, 1, 2 gather every flat group once after the
// last accumulation step: stage 0 as gradient sums, 1 and 2 as working parameters. Stage 3 gathers for every lease of
// every micro-batch, and breadth first where the slot of the lease has another flat group. Zero groups gather among
// themselves, and exchange shards once (plan/cost/zero_group_calls.h). Nodes may reduce one after the other
// (plan/cost/reduction_node_calls.h). An ordered reduction costs a rank nothing in an
// accumulation step in which it is idle. With tensor parallelism, each segment of `most` bytes of a flat group is a
// call of its own. An optimizer may add sums of norms (plan/cost/parameter_norms.h), also over tensor-parallel ranks.
// Frozen flat groups are neither reduced nor gathered once.
// Not included: the engine's control group (flags, losses, norms).
std::vector<SizedCalls> step_calls(const ModelPart& part, const StateShape& shape, Reduction reduction, int data_rank,
                                   std::int64_t most = segment_bytes);

// Every tensor-parallel collective of a rank for `micros` micro-batches (BlockKind::tensor_calls), added up by
// operation and size. Pass::train counts forward, backward and what recomputation repeats. Empty without tensor
// parallelism.
std::vector<SizedCalls> tensor_calls(const ModelPart& part, const MicroShape& micro, Pass pass,
                                     const Recomputation& recompute, std::int64_t micros);

// The same among the ranks that hold different experts (BlockKind::expert_calls). A rank with an empty micro-batch
// still works for other ranks, so `micros` counts empty micro-batches, too.
std::vector<SizedCalls> expert_calls(const ModelPart& part, const MicroShape& micro, Pass pass,
                                     const Recomputation& recompute, std::int64_t micros);

// The messages of `micros` micro-batches between a stage and its neighbours (plan/schedule/stage_messages.h):
// activations forwards, and with Pass::train their gradients backwards. Each is a call of two ranks, one of which
// sends.
std::vector<SizedCalls> pipe_calls(const ModelConfig& model, const Stages& stages, int stage, const MicroShape& micro,
                                   Pass pass, std::int64_t micros);
// The exchange of summed shards, in a step, between the stages that hold a flat group together
// (plan/schedule/stages.h).
std::vector<SizedCalls> flat_group_of_stages_calls(const ModelPart& part, const Stages& stages, int stage,
                                                   const StateShape& shape);

struct Traffic {
  CallGroup group;
  std::string operation;
  std::int64_t calls = 0, bytes = 0;  // bytes that leave the rank
  bool operator==(const Traffic&) const = default;
};
std::vector<Traffic> added_up(const std::vector<SizedCalls>& calls);  // by group and operation
// step_calls, added up by group and operation.
std::vector<Traffic> step_traffic(const ModelPart& part, const StateShape& shape, Reduction reduction, int data_rank,
                                  std::int64_t most = segment_bytes);

// With ZeRO 3: how often a rank gathers each flat group of its part in a training step. Every lease of a micro-batch,
// an empty one included, gathers its flat group, unless the step works breadth first.
std::vector<std::int64_t> gathers_of_groups(const ModelPart& part, const FlatGroupTable& table,
                                            const StateShape& shape);

// Accumulation steps of one validation over `sequences`, a multiple of the micro-batch. Every data-parallel rank takes
// part in each one, also in an uneven last one.
std::int64_t validation_rounds(const BatchPlan& batch, std::int64_t sequences);
// Traffic of a validation in the groups of flat groups: only ZeRO stage 3 sends anything.
std::vector<Traffic> validation_traffic(const ModelPart& part, const StateShape& shape, std::int64_t sequences);

}  // namespace trainyard::plan
