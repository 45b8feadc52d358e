// The inventory of a model: its blocks with how often each stands there, and from them its units and parameters.
#pragma once

#include "libtrain/plan/block_kind.h"
#include "libtrain/plan/model_config.h"
#include "libtrain/plan/unit.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Blocks of one kind that follow one another. Sums over a model are sums over its few segments.
struct Segment {
  Part part;
  const BlockKind* kind;
  std::int64_t times = 1;
};
// The embedding, the layers, the head, of the registered kinds.
std::vector<Segment> segments(const ModelConfig& model);

// One block of the model with its place: what a block is made from.
struct PlacedBlock {
  Part part;
  const BlockKind* kind;
  std::int64_t index;       // among the blocks of its part
  std::vector<Unit> units;  // its own
  std::vector<Use> uses;    // in the order of BlockKind::uses
  BlockAccesses accesses;
};
std::vector<PlacedBlock> placed_blocks(const ModelConfig& model);

// Every unit, in the order of the blocks.
std::vector<Unit> units(const ModelConfig& model);
std::int64_t parameter_count(const ModelConfig& model);  // logical, each once

// The order in which a micro-batch's forward pass uses units.
std::vector<Use> uses(const ModelConfig& model);

}  // namespace trainyard::plan
