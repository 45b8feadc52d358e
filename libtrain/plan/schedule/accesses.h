// The order in which a micro-batch leases weights and commits gradients. Parameter stores fetch weights ahead in this
// order, and ranks without a micro-batch replay it.
#pragma once

#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/schedule/schedule.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The accesses of one chunk (virtual stage) of a part of a model. A whole model has one chunk. Forward visits the
// blocks in order, backward in reverse, and each block adds what its kind states (BlockKind::accesses).
std::vector<Access> forward_accesses(const ModelPart& part, int chunk = 0);
std::vector<Access> backward_accesses(const ModelPart& part, int chunk = 0);
// What replaces backward_accesses where weight gradients are computed apart from input gradients. Blocks that support
// the split lease in the first and commit in the second. Other blocks do their whole backward in the first.
std::vector<Access> input_gradient_accesses(const ModelPart& part, int chunk = 0);
std::vector<Access> weight_gradient_accesses(const ModelPart& part, int chunk = 0);
std::vector<Access> training_accesses(const ModelPart& part, int chunk = 0);    // forward, then backward
std::vector<Access> evaluation_accesses(const ModelPart& part, int chunk = 0);  // forward only
// The same for each block of a chunk, in the order of the blocks.
struct AccessesOfBlock {
  std::vector<Access> forward, backward, input_gradients, weight_gradients;
};
std::vector<AccessesOfBlock> accesses_of_blocks(const ModelPart& part, int chunk = 0);
std::vector<Occurrence> leases_of(const std::vector<Access>& accesses);

// The leases of several passes, stored as a few lists and the order in which the passes use them.
struct LeaseOrder {
  std::vector<std::vector<Occurrence>> lists;
  std::vector<std::uint32_t> passes;  // for each pass the index of its list in `lists`
  // A gathered flat group stays in its slot until another one needs the slot, and later leases find it there. Otherwise
  // every lease gathers. Of steps that work breadth first.
  bool keeps = false;
};
// The leases of all actions of a step. Input gradients lease what a backward does; weight gradients lease nothing.
// Breadth first there are lists for each block, and the order `keeps`.
LeaseOrder step_leases(const ModelPart& part, const std::vector<Action>& actions);
// For each flat group of a part with one chunk: how often a rank gathers it in a step that works breadth first on
// `micros` micro-batches, with empty ones.
std::vector<std::int64_t> breadth_first_gathers(const ModelPart& part, const SlotPlan& slots, std::int64_t micros);

}  // namespace trainyard::plan
