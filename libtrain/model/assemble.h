// Assembly: makes the blocks of a model from its configuration. It alone chooses where norms and residual additions
// are.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/model/branch.h"
#include "libtrain/plan/blocks/inventory.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::model {

using BlockFactory =
    std::function<std::unique_ptr<Block>(const plan::ModelConfig& model, const plan::PlacedBlock& place)>;
using BranchFactory = std::function<std::unique_ptr<Branch>(const BranchSpec& spec)>;

// The library's blocks and branches are registered under the names of their descriptions (plan/blocks/named_kinds.h). A
// program outside registers a description and its factory together, under a new name or in place of one of these.
// Without a description the present one stays. A model names its branches (plan::ModelConfig::branches). UsageError for
// a null kind, an empty factory or a name that cannot be written in a model file (plan/blocks/named_kinds.h), and from
// assemble() for a factory that returns null. Not thread-safe: register before anything is planned or assembled.
void register_block(const std::string& name, std::shared_ptr<const plan::BlockKind> kind, BlockFactory factory);
void register_block(const std::string& name, BlockFactory factory);
void register_branch(const std::string& name, std::shared_ptr<const plan::BranchKind> kind, BranchFactory factory);
// The registered factory, to wrap it for example. Throws UsageError with the legal names.
BlockFactory block_factory(const std::string& name);

// The blocks of virtual stage `chunk` of a part, in the order of plan::placed_blocks(part). A whole model is a part
// with one virtual stage. Layers are wrapped in recompute() or recompute_selectively() as `recompute` says of
// each. Throws
// UsageError with every entry of plan::problems(model).
std::vector<std::unique_ptr<Block>> assemble(const plan::ModelPart& part, const plan::Recomputation& recompute = {},
                                             int chunk = 0);

}  // namespace trainyard::model
