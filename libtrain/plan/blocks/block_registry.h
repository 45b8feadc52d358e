// The kinds of blocks by name.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

#include <memory>
#include <string>
#include <vector>

namespace trainyard::plan {

// The library has "embedding", "layer" and "head". A later registration replaces an earlier one of the same name.
// UsageError for a null kind, and for a name that is empty or has other characters than letters, digits, '_', '-' and
// '.'. Not thread-safe: register before anything is planned.
void register_block(const std::string& name, std::shared_ptr<const BlockKind> kind);
const BlockKind& block_kind(const std::string& name);  // UsageError that names the nearest known kind
std::vector<std::string> block_names();                // sorted

}  // namespace trainyard::plan
