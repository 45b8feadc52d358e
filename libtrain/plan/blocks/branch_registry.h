// The kinds of branches of a layer by name.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

#include <memory>
#include <string>
#include <vector>

namespace trainyard::plan {

// The library has "attention", "ffn" and "experts" (plan/spec/layer_model.h). Registers as register_block
// (plan/blocks/block_registry.h).
void register_branch(const std::string& name, std::shared_ptr<const BranchKind> kind);
const BranchKind& branch_kind(const std::string& name);  // UsageError that names the nearest known kind
std::vector<std::string> branch_names();                 // sorted

}  // namespace trainyard::plan
