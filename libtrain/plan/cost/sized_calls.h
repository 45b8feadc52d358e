// SizedCalls: collective calls of one rank in one group.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/plan/grid/call_group.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::plan {

// Collective calls of one operation and size.
struct SizedCalls {
  // The group of a flat group; tensor-parallel ranks; ranks with different experts, or those of a node and of all nodes
  // (plan/cost/expert_nodes.h); a pair of stages.
  CallGroup group;
  int ranks = 1;          // of that group
  std::string operation;  // as the ledger names it
  base::DType type = base::DType::f32;
  std::int64_t bytes = 0;  // of the whole gathered or reduced tensor, all shards together, as a profile counts sizes
  std::int64_t calls = 0;
  std::int64_t sending = 0;  // calls in which the rank sends its part: (N-1)/N of `bytes`
  // What the rank sends in all calls together, where that does not follow from `bytes`, because ranks send unequal
  // parts. `bytes` is then what it is on average.
  std::optional<std::int64_t> sent = {};
};

}  // namespace trainyard::plan
