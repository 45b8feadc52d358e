// The inventory of a model: its blocks with their multiplicity, and from them its flat groups and parameters.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"
#include "libtrain/plan/blocks/flat_group.h"
#include "libtrain/plan/spec/model_config.h"
#include "libtrain/plan/spec/recomputation.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::plan {

// Blocks [begin, end) of a model in order: the embedding, the layers, the head. In an encoder-decoder model the bridge
// is between the encoder's layers and the others.
struct Items {
  std::int64_t begin = 0, end = 0;
  bool operator==(const Items&) const = default;
};
std::int64_t item_count(const ModelConfig& model);
// "embedding", "layers.00", ..., "head", as files name them
std::vector<std::string> item_names(const ModelConfig& model);
std::int64_t item_of_layer(const ModelConfig& model, std::int64_t layer);
// The layers among these items.
Items layers_of(const ModelConfig& model, const Items& items);

// The hidden states that a run of items has: an encoder's, those of the other layers, and the encoder's output. A model
// without an encoder has the second alone.
struct HeldStreams {
  bool source = false, target = false, memory = false;
};
HeldStreams held_streams(const ModelConfig& model, const Items& items);
// Those that pass from the items before `item`, which is not the first, to the items from there on. Their gradients
// pass back.
HeldStreams passed_streams(const ModelConfig& model, std::int64_t item);

// A model, or what one pipeline rank has of it: ascending runs of items. Each run is a chunk (virtual stage), which a
// micro-batch passes through at one time. Refers to the model.
struct ModelPart {
  ModelPart(const ModelConfig& all);  // a model is a part of itself
  ModelPart(const ModelConfig& all, std::vector<Items> runs) : model(all), chunks(std::move(runs)) {}
  // The same part with this share of each layer's experts.
  ModelPart with_experts(ExpertShare share) const {
    auto part = *this;
    part.experts = share;
    return part;
  }
  // The shape with this part's share of experts.
  MicroShape own_shape(MicroShape shape) const {
    shape.experts = experts;
    return shape;
  }
  const ModelConfig& model;
  std::vector<Items> chunks;
  ExpertShare experts = {};
};

// Neighbouring blocks that are alike. Sums over a model are sums over its few segments.
struct Segment {
  Part part;
  const BlockKind* kind;
  const ModelConfig& model;  // as these blocks see it (plan/spec/layer_model.h); their kind gets it as argument
  std::int64_t times = 1;
  std::int64_t first = 0;                 // index among the blocks of its Part in the whole model
  int chunk = 0;                          // index of the chunk in the ModelPart
  ExpertShare experts = {};               // of the ModelPart
  Recompute recompute = Recompute::none;  // of layers, if asked for
  // Owns `model`. Segments with the same one have equal models (plan/blocks/known_model.h).
  std::shared_ptr<const ModelConfig> owner = {};
  // The flat groups of its i-th block, as a rank of the ModelPart holds them.
  std::vector<FlatGroup> flat_groups(std::int64_t i = 0) const {
    return kind->held_flat_groups(model, first + i, experts);
  }
  // Do these blocks work on source sequences: the embedding and the layers of an encoder?
  bool is_of_source() const;
  // What a block of them sees of the model's lengths, or of its micro-batch: a block of an encoder sees source
  // sequences alone. And its own rows for each token of a target.
  Lengths lengths(const Lengths& whole) const;
  MicroShape shape(const MicroShape& whole) const;
  double rows_per_token(const Lengths& whole) const;
};
// The same as segment.flat_groups(i). The thread keeps the last ones, because plans ask often and names take long.
using SharedFlatGroups = std::shared_ptr<const std::vector<FlatGroup>>;
SharedFlatGroups shared_flat_groups(const Segment& segment, std::int64_t i = 0);

// The embedding, the layers and the head, with their registered kinds.
std::vector<Segment> segments(const ModelPart& part);
// The same, where layers of a segment also recompute alike.
std::vector<Segment> segments(const ModelPart& part, const Recomputation& recomputation);
std::int64_t layer_count(const ModelPart& part);

// One block of the model with its place: a block is made from this.
struct PlacedBlock {
  Part part;
  const BlockKind* kind;
  ModelConfig model;   // the model as the block sees it
  std::int64_t index;  // among the blocks of its Part in the whole model
  // Copies of flat groups that it borrows from a block outside this ModelPart, then its own flat groups.
  std::vector<FlatGroup> borrowed, flat_groups;
  std::vector<Occurrence> occurrences;  // in the order of BlockKind::occurrences
  BlockAccesses accesses;
  int chunk = 0;
  ExpertShare experts = {};  // of the ModelPart
};
std::vector<PlacedBlock> placed_blocks(const ModelPart& part);

// Every flat group, in the order of the blocks. What a block borrows from another ModelPart comes before its own
// groups.
std::vector<FlatGroup> flat_groups(const ModelPart& part);
std::int64_t parameter_count(const ModelConfig& model);  // logical, each counted once
// The part of these that a run changes: all, or with adapters the parameters of these.
std::int64_t trained_parameter_count(const ModelConfig& model);
// " (1.2M trained, 0.61%, in adapters on q, v)"; empty if all are trained.
std::string trained_text(const ModelConfig& model);
// "12"; with an encoder "6 + 6".
std::string layers_text(const ModelConfig& model);
// The part of these that experts have: the flat groups that a layer's branch has of its own.
std::int64_t expert_parameter_count(const ModelConfig& model);
// The part of all parameters that a token passes: of a layer's experts, as many as the token chooses.
std::int64_t active_parameter_count(const ModelConfig& model);

// What the blocks of a segment borrow from blocks outside this ModelPart and no segment before it borrows, in the order
// of their occurrences.
std::vector<std::shared_ptr<const FlatGroup>> borrowed_flat_groups(const ModelPart& part, const Segment& segment);

// The order in which a micro-batch's forward pass uses flat groups, chunk after chunk.
std::vector<Occurrence> occurrences(const ModelPart& part);

}  // namespace trainyard::plan
