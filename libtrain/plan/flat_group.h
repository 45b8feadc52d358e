// Flat groups: logical parameters that are gathered, reduced and updated together, their flat layout, and the order in
// which they are used.
#pragma once

#include "libtrain/plan/topology.h"

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

// A dim of a parameter that is sharded over the ranks of an axis: each holds an equal part of it.
struct ShardedDim {
  int dim = 0;
  Axis axis = Axis::tensor;
  bool operator==(const ShardedDim&) const = default;
};

// What a step does to a parameter. even_load: of the bias of a gate's experts, [experts], which changes what they are
// chosen by: those that were chosen less often than all on average get `rate` more, those chosen more often `rate` less
// (Wang et al. 2024, "Auxiliary-loss-free load balancing", algorithm 1). In place of a gradient it folds how often each
// was chosen, whole numbers; these are part of no norm, and no state of the optimizer is used.
struct Update {
  enum class Kind { adamw, even_load } kind = Kind::adamw;
  double rate = 0;
  std::int64_t choices = 0;  // of a token
  bool operator==(const Update&) const = default;
};

// One logical parameter. `stored` differs from `shape` only in the rows of vocabulary tables (rounded up to 128; the
// extra rows are zero for ever). Weights are [out, in].
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape, stored;
  Init init;
  bool decay = true;                       // weight decay applies (not to biases, norms, embeddings)
  std::optional<ShardedDim> sharded = {};  // none: whole on every rank
  Update update = {};
  std::int64_t count() const;
  std::int64_t stored_count() const;
  bool operator==(const Parameter&) const = default;
};

// Where in a model something stands: before the layers, among them, behind them. Layers are what repeats: their buffers
// rotate, and recomputation is for them.
enum class Part { input, layers, output };

struct FlatGroup {
  std::string name;  // "embedding.tokens", "embedding.positions", "layers.07", "head"
  Part part = Part::input;
  // The ranks that differ along these axes hold its parameters alike and read different samples: they add up its
  // gradients, and ZeRO cuts it into as many shards. Kinds say {data}; of experts that data ranks share it is
  // {expert_data}.
  Axes group = {Axis::data};
  std::vector<Parameter> parameters;  // declaration order
  // Along these axes ranks have other parameters in its place: other experts of the layer.
  Axes others = {};
};

// How many gradients one rank makes of a flat group for a micro-batch: that of its own tokens, or, of experts that
// ranks share, one for each rank that sends it some, in their order.
int contributions_of(const FlatGroup& flat_group, const Topology& topology);

// Which of a flat group's parameters it is, by its name without that of the flat group ("attention.q.weight"); -1 when
// it has none.
int index_of(const FlatGroup& flat_group, std::string_view name);

// What a rank holds of a parameter: elements [start, start + extent) of its stored shape in every dim.
struct HeldPart {
  std::vector<std::int64_t> start, extent;
};
HeldPart held_part(const Parameter& parameter, const Topology& topology, int rank);

// Flat layout of one flat group (decision 11) on each of its ranks: what they hold of the parameters, back to back in
// declaration order, each starting at a multiple of 64 bytes in fp32, i.e. 16 elements; the whole padded to shards * 64
// elements.
struct FlatLayout {
  std::vector<std::vector<std::int64_t>> shapes;    // held of each parameter; equal on every rank
  std::vector<std::int64_t> offsets;                // element offset of each parameter
  std::int64_t count(std::size_t parameter) const;  // elements held of it
  std::int64_t end(std::size_t parameter) const { return offsets[parameter] + count(parameter); }
  std::int64_t used = 0;    // end of the last parameter
  std::int64_t padded = 0;  // multiple of shards * 64
  std::int64_t shard = 0;   // padded / shards: elements of one rank's shard
};
// As many shards as the flat group's group has ranks. Axes divide the dims that they cut.
FlatLayout layout(const FlatGroup& flat_group, const Topology& topology);
FlatLayout layout(const FlatGroup& flat_group, int shards);  // of whole parameters

// Where the forward pass of a model uses a flat group. A tied table occurs twice: occurrence 0 is the embedding's,
// occurrence 1 the head's.
struct Occurrence {
  int flat_group;  // index into flat_groups(model), or of a part of it
  int index;       // counted in the order of the forward pass
  bool operator==(const Occurrence&) const = default;
};

// What a block does with an occurrence of a flat group.
struct Access {
  enum class Kind { lease, commit } kind;
  Occurrence occurrence;
  bool operator==(const Access&) const = default;
};

}  // namespace trainyard::plan
