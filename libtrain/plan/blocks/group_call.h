// GroupCall: a collective of the ranks that share a block.
#pragma once

#include "libtrain/base/dtype.h"

#include <cstdint>

namespace trainyard::plan {

// Collective calls of one operation and size that a rank makes in a group of ranks that share a block.
struct GroupCall {
  const char* operation;  // a literal, as the ledger names it
  base::DType type;
  std::int64_t bytes;  // of the whole gathered or reduced tensor, as in plan::SizedCalls
  std::int64_t calls;
};

}  // namespace trainyard::plan
