// Accesses: the order in which one micro-batch leases weights and commits gradients. Stores fetch ahead along it, idle
// ranks replay it.
#pragma once

#include "libtrain/plan/inventory.h"

#include <vector>

namespace trainyard::plan {

// Forward in the order of the blocks, then backward in reverse, each block as its kind says (BlockKind::accesses).
std::vector<Access> training_accesses(const ModelConfig& model);
std::vector<Access> evaluation_accesses(const ModelConfig& model);  // forward only
std::vector<Use> leases_of(const std::vector<Access>& accesses);

}  // namespace trainyard::plan
