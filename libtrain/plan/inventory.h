// The inventory of a model: its blocks with how often each stands there, and from them its flat groups and parameters.
#pragma once

#include "libtrain/plan/block_kind.h"
#include "libtrain/plan/model_config.h"
#include "libtrain/plan/flat_group.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::plan {

// Blocks [begin, end) of a model in their order: the embedding is item 0, layer i is item i + 1, the head is the last.
struct Items {
  std::int64_t begin = 0, end = 0;
  bool operator==(const Items&) const = default;
};
std::int64_t item_count(const ModelConfig& model);
std::vector<std::string> item_names(
    const ModelConfig& model);  // "embedding", "layers.00", ..., "head", as files name them

// A model, or what one rank of a pipeline has of it: runs of its items, ascending, each a chunk that a micro-batch
// passes through at one time. Refers to the model.
struct ModelPart {
  ModelPart(const ModelConfig& all);  // a model is a part of itself
  ModelPart(const ModelConfig& all, std::vector<Items> runs) : model(all), chunks(std::move(runs)) {}
  // Of the experts of its layers it has these.
  ModelPart with_experts(ExpertShare share) const {
    auto part = *this;
    part.experts = share;
    return part;
  }
  const ModelConfig& model;
  std::vector<Items> chunks;
  ExpertShare experts;
};

// Blocks that are alike and follow one another. Sums over a model are sums over its few segments.
struct Segment {
  Part part;
  const BlockKind* kind;
  ModelConfig model;  // as these blocks see it (plan/layer_model.h): what their kind is asked with
  std::int64_t times = 1;
  std::int64_t first = 0;  // among the blocks of its part in the whole model
  int chunk = 0;           // of the part of the model
};
// The embedding, the layers, the head, of the registered kinds.
std::vector<Segment> segments(const ModelPart& part);

// One block of the model with its place: what a block is made from.
struct PlacedBlock {
  Part part;
  const BlockKind* kind;
  ModelConfig model;   // as it sees it
  std::int64_t index;  // among the blocks of its part in the whole model
  // Copies of flat groups that it borrows from a block which is not in this part, then its own.
  std::vector<FlatGroup> borrowed, flat_groups;
  std::vector<Occurrence> occurrences;  // in the order of BlockKind::occurrences
  BlockAccesses accesses;
  int chunk = 0;
};
std::vector<PlacedBlock> placed_blocks(const ModelPart& part);

// Every flat group, in the order of the blocks; before those of a block what it borrows from another part.
std::vector<FlatGroup> flat_groups(const ModelPart& part);
std::int64_t parameter_count(const ModelConfig& model);  // logical, each once
// Of those, what experts have: the flat groups that a layer's branch has of its own.
std::int64_t expert_parameter_count(const ModelConfig& model);
// Of all, what a token goes through: of the experts of a layer as many as it chooses.
std::int64_t active_parameter_count(const ModelConfig& model);

// What the blocks of a segment borrow from blocks that are not in this part, in the order of their uses.
std::vector<FlatGroup> borrowed_flat_groups(const ModelPart& part, const Segment& segment);

// The order in which a micro-batch's forward pass uses flat groups, chunk after chunk.
std::vector<Occurrence> occurrences(const ModelPart& part);

}  // namespace trainyard::plan
