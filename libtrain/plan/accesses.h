// Accesses: the order in which micro-batches lease weights and commit gradients. Stores fetch ahead along it, idle
// ranks replay it.
#pragma once

#include "libtrain/plan/inventory.h"
#include "libtrain/plan/schedule.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Of one chunk of a part of a model; a whole model is one. Forward in the order of the blocks, backward in reverse,
// each block as its kind says (BlockKind::accesses).
std::vector<Access> forward_accesses(const ModelPart& part, int chunk = 0);
std::vector<Access> backward_accesses(const ModelPart& part, int chunk = 0);
// The two in its place where weight gradients are made apart: of blocks that can, leases and commits; of the others all
// of backward in the first.
std::vector<Access> input_gradient_accesses(const ModelPart& part, int chunk = 0);
std::vector<Access> weight_gradient_accesses(const ModelPart& part, int chunk = 0);
std::vector<Access> training_accesses(const ModelPart& part, int chunk = 0);    // one after the other
std::vector<Access> evaluation_accesses(const ModelPart& part, int chunk = 0);  // forward only
// The same of each block of a chunk by itself, in the order of the blocks.
struct AccessesOfBlock {
  std::vector<Access> forward, backward, input_gradients, weight_gradients;
};
std::vector<AccessesOfBlock> accesses_of_blocks(const ModelPart& part, int chunk = 0);
std::vector<Occurrence> leases_of(const std::vector<Access>& accesses);

// The leases of several passes: a few lists, and in what order they come.
struct LeaseOrder {
  std::vector<std::vector<Occurrence>> lists;
  std::vector<std::uint8_t> passes;  // each an index into `lists`
};
// Of all actions of a step. Input gradients lease what a backward does, weight gradients nothing.
LeaseOrder step_leases(const ModelPart& part, const std::vector<Action>& actions);

}  // namespace trainyard::plan
