// Flat groups: logical parameters that are gathered, reduced and updated together. Their flat layout, and their
// occurrences in a forward pass.
#pragma once

#include "libtrain/plan/grid/topology.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::plan {

struct Init {
  enum class Kind { zeros, ones, normal } kind = Kind::zeros;
  double stddev = 0;
  bool operator==(const Init&) const = default;
};

// A sharded dim of a parameter: each rank along the axis holds an equal part of it.
struct ShardedDim {
  int dim = 0;
  Axis axis = Axis::tensor;
  bool operator==(const ShardedDim&) const = default;
};

// What a step does to a parameter. optimizer: what the optimizer of the run does (plan/spec/optimizer_kind.h).
// even_load is for the bias of a gate's choices, [experts] (Wang et al. 2024, "Auxiliary-loss-free load balancing",
// algorithm 1). Experts chosen less often than all experts on average get `rate` more, and experts chosen more often
// get `rate` less. In place of a gradient, the number of choices of each expert is added up, in whole numbers. These
// counts are part of no norm, and no state of the optimizer is used.
// frozen: nothing. The parameter has no gradient and no state of the optimizer.
// kept: nothing either. The gradient and the states are there, and in no norm.
struct Update {
  enum class Kind { optimizer, even_load, frozen, kept } kind = Kind::optimizer;
  double rate = 0;
  std::int64_t choices = 0;  // experts that a token chooses
  bool operator==(const Update&) const = default;
};

// One logical parameter. `stored` differs from `shape` only in the rows of vocabulary tables: they are rounded up to
// 128, and the extra rows stay zero. Weights are [out, in].
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape, stored;
  Init init;
  bool decay = true;                       // whether weight decay applies (not to biases, norms, embeddings)
  std::optional<ShardedDim> sharded = {};  // none: whole on every rank
  Update update = {};
  // What the optimizer of the run does otherwise with it: a factor of the learning rate, and its own weight decay,
  // which applies whatever `decay` says.
  double rate_scale = 1;
  std::optional<double> weight_decay = {};
  bool decays() const { return weight_decay ? *weight_decay > 0 : decay; }
  std::int64_t count() const;
  std::int64_t stored_count() const;
  bool operator==(const Parameter&) const = default;
};

// Where in a model something lies: before the layers, in the layers, between those of an encoder and the others, or
// after them. Only flat groups of layers share rotating buffers, and only layers are recomputed.
enum class Part { input, layers, bridge, output };

struct FlatGroup {
  std::string name;  // "embedding.tokens", "embedding.positions", "layers.07", "head"
  Part part = Part::input;
  // The ranks that differ along these axes hold the same parameters and read different samples. They add up the
  // gradients, and ZeRO divides the group into as many shards. Kinds use {data}, or {expert_data} for distributed
  // experts: experts that expert-parallel ranks divide.
  Axes group = {Axis::data};
  std::vector<Parameter> parameters;  // declaration order
  // Along these axes ranks hold other parameters in this group's place: other experts of the layer.
  Axes others = {};
};

// Whether no step changes the flat group, because all its parameters are frozen. It is leased, but never committed.
bool is_frozen(const FlatGroup& flat_group);

// How many gradients of a flat group one rank computes for a micro-batch. It is one, for the rank's own tokens. For
// distributed experts (experts that expert-parallel ranks divide) it is one for each rank that sends tokens, in the
// order of these ranks.
int contributions_of(const FlatGroup& flat_group, const Topology& topology);

// The index of a parameter in its flat group, by its name without the group's name ("attention.q.weight").
// std::logic_error with both names if there is none.
int index_of(const FlatGroup& flat_group, std::string_view name);
// The same for a parameter that only some models have, such as a bias: -1 if there is none.
int find_index(const FlatGroup& flat_group, std::string_view name);

// The part of a parameter that a rank holds: elements [start, start + extent) of its stored shape in every dim.
struct HeldPart {
  std::vector<std::int64_t> start, extent;
};
HeldPart held_part(const Parameter& parameter, const Topology& topology, int rank);

// Flat layout of a flat group (decision 11) on each of its ranks. The held parts of the parameters lie back to back in
// declaration order. Each starts at a multiple of 64 bytes in fp32, that is 16 elements. The whole is padded to shards
// * 64 elements.
struct FlatLayout {
  std::vector<std::vector<std::int64_t>> shapes;    // of the held part of each parameter; equal on every rank
  std::vector<std::int64_t> offsets;                // element offset of each parameter
  std::int64_t count(std::size_t parameter) const;  // elements in the held part
  std::int64_t end(std::size_t parameter) const { return offsets[parameter] + count(parameter); }
  std::int64_t used = 0;    // end of the last parameter
  std::int64_t padded = 0;  // multiple of shards * 64
  std::int64_t shard = 0;   // padded / shards: elements of one rank's shard
};
// There are as many shards as the group has ranks. The size of an axis must divide the dims that are sharded over it.
FlatLayout layout(const FlatGroup& flat_group, const Topology& topology);
FlatLayout layout(const FlatGroup& flat_group, int shards);  // of whole parameters

// A place where the forward pass of a model uses a flat group. A tied table occurs twice: occurrence 0 is in the
// embedding, occurrence 1 in the head.
struct Occurrence {
  int flat_group;  // index into flat_groups(model), or flat_groups(part)
  int index;       // counts the group's occurrences in forward order
  bool operator==(const Occurrence&) const = default;
};

// What a block does with an occurrence of a flat group.
struct Access {
  enum class Kind { lease, commit } kind;
  Occurrence occurrence;
  bool operator==(const Access&) const = default;
};

}  // namespace trainyard::plan
