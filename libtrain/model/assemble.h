// Assembly: the only place with choices: from a model's configuration to its blocks; where norms and residuals stand.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/model/branch.h"
#include "libtrain/plan/inventory.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::model {

using BlockFactory =
    std::function<std::unique_ptr<Block>(const plan::ModelConfig& model, const plan::PlacedBlock& place)>;
using BranchFactory = std::function<std::unique_ptr<Branch>(const BranchSpec& spec)>;

// The blocks and branches of this library are registered under the names of their descriptions (plan/block_kind.h). A
// program outside registers a description and what is made from it together, under a new name or in the place of one of
// these; without a description the one there is stays. Branches are then named by the model
// (plan::ModelConfig::branches). Not thread-safe: register before anything is planned or assembled.
void register_block(const std::string& name, std::shared_ptr<const plan::BlockKind> kind, BlockFactory factory);
void register_block(const std::string& name, BlockFactory factory);
void register_branch(const std::string& name, std::shared_ptr<const plan::BranchKind> kind, BranchFactory factory);
BlockFactory block_factory(
    const std::string& name);  // what is registered, to wrap it for example; UsageError naming the legal ones

// The blocks of plan::placed_blocks(part) that are of a chunk, in that order; a model is a part of one chunk. Layers
// are wrapped in recompute() or recompute_selectively() when asked for. Throws UsageError with every entry of
// plan::problems(model).
std::vector<std::unique_ptr<Block>> assemble(const plan::ModelPart& part,
                                             plan::Recompute recompute = plan::Recompute::none, int chunk = 0);

}  // namespace trainyard::model
