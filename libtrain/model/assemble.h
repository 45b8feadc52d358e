// Assembly: the only place with choices: from a model's configuration to its blocks.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/plan/activations.h"
#include "libtrain/plan/model_config.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::model {

// Everything a factory may look at.
struct BlockSpec {
  const plan::ModelConfig& model;
  plan::BlockKind kind;
  std::int64_t layer = 0;        // for BlockKind::layer
};
using BlockFactory = std::function<std::unique_ptr<Block>(const BlockSpec&)>;

// Registered under "embedding", "layer" and "head" are the blocks of this library. A program outside may register a block of its own
// under a new name, or under one of these to replace it; the last registration counts. Not thread-safe: register before assemble.
void register_block(const std::string& name, BlockFactory factory);
std::vector<std::string> registered_blocks();                                   // sorted
std::unique_ptr<Block> make_block(const std::string& name, const BlockSpec&);   // UsageError naming the legal ones

// embedding, layer 0 .. layers-1, head; in the order of plan::uses(model). Layers are wrapped in recompute() when asked for.
// Throws UsageError with every entry of plan::problems(model).
std::vector<std::unique_ptr<Block>> assemble(const plan::ModelConfig& model, plan::Recompute recompute = plan::Recompute::none);

}  // namespace trainyard::model
