// Accesses: the order in which one micro-batch leases weights and commits gradients. Stores fetch ahead along it, idle ranks replay it.
#pragma once

#include "libtrain/plan/inventory.h"

#include <vector>

namespace trainyard::plan {

struct Access {
  enum class Kind { lease, commit } kind;
  Use use;
  bool operator==(const Access&) const = default;
};

// Forward then backward of one micro-batch, as the blocks do it: forward leases every use in order, but the head needs only its norm there;
// backward goes from the head down, leases and then commits each use. The embedding's backward leases nothing.
std::vector<Access> training_accesses(const ModelConfig& model);
std::vector<Access> evaluation_accesses(const ModelConfig& model);   // forward only, the head with its logits
std::vector<Use> leases_of(const std::vector<Access>& accesses);

}  // namespace trainyard::plan
