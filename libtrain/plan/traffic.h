// Traffic of one rank in one optimizer step, per operation of a group, by formula: what the communicator's ledger
// will read.
#pragma once

#include "libtrain/plan/block_kind.h"
#include "libtrain/plan/stages.h"
#include "libtrain/plan/states.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Collective calls of one operation and size.
struct SizedCalls {
  std::string group;      // "data" or "expert_data", that of the flat groups; "tensor"; "expert", or "expert_inner" and
                          // "expert_outer" (plan/expert_nodes.h); "pipe", a pair of neighbouring stages
  int ranks = 1;          // of that group
  std::string operation;  // as the ledger names it
  base::DType type = base::DType::f32;
  std::int64_t bytes = 0;  // of the whole that is gathered or reduced, all shards together, as a profile counts sizes
  std::int64_t calls = 0;
  std::int64_t sending = 0;  // those in which the rank sends its part: (N-1)/N of `bytes`
};

// Every call of a training step without validation, of the groups of flat groups. Each round reduces every flat group
// once for each occurrence (a tied table twice). Stages 0, 1, 2 gather every flat group once after the last round,
// stage 0 as gradient sums, 1 and 2 as working parameters; stage 3 gathers for every lease of every micro-batch. An
// ordered reduction costs a rank nothing in a round in which it idles. Between ranks that share layers a call of a flat
// group is one for each of its segments of `most` bytes. Not included: the engine's control group (flags, losses,
// norms).
std::vector<SizedCalls> step_calls(const ModelPart& part, const StateShape& shape, Reduction reduction, int data_rank,
                                   std::int64_t most = segment_bytes);

// Every call of `micros` micro-batches that a rank works on, among the tensor ranks of its replica: as the kinds of
// blocks say (BlockKind::tensor_calls), those of one operation and size together. With Pass::train forward and
// backward, with what recomputation sends again. None where no layer is shared.
std::vector<SizedCalls> tensor_calls(const ModelPart& part, const MicroShape& micro, Pass pass, Recompute recompute,
                                     std::int64_t micros);

// The same among the ranks that hold different experts (BlockKind::expert_calls). A rank that has no micro-batch works
// for those that have one: `micros` counts the places of all.
std::vector<SizedCalls> expert_calls(const ModelPart& part, const MicroShape& micro, Pass pass, Recompute recompute,
                                     std::int64_t micros);

// The messages of `micros` micro-batches between a stage and its neighbours: activations forwards, with Pass::train
// their gradients back. Each is a call of two ranks of which one sends.
std::vector<SizedCalls> pipe_calls(const ModelConfig& model, const Stages& stages, int stage, const MicroShape& micro,
                                   Pass pass, std::int64_t micros);
// What the stages that hold a flat group together say to one another in a step (plan/stages.h): its folded shards.
std::vector<SizedCalls> flat_group_of_stages_calls(const ModelPart& part,
                                                   const std::vector<std::string>& flat_groups_of_stages,
                                                   const StateShape& shape);

struct Traffic {
  std::string group, operation;
  std::int64_t calls = 0, bytes = 0;  // bytes that leave the rank
  bool operator==(const Traffic&) const = default;
};
std::vector<Traffic> added_up(const std::vector<SizedCalls>& calls);  // by group and operation
// step_calls, added up.
std::vector<Traffic> step_traffic(const ModelPart& part, const StateShape& shape, Reduction reduction, int data_rank,
                                  std::int64_t most = segment_bytes);

// One validation over `sequences`, a multiple of the micro-batch: every data rank takes part in every round, also in a
// last one that is not full.
std::int64_t validation_rounds(const BatchPlan& batch, std::int64_t sequences);
// Of the groups of flat groups: only stage 3 sends anything.
std::vector<Traffic> validation_traffic(const ModelPart& part, const StateShape& shape, std::int64_t sequences);

}  // namespace trainyard::plan
