// A small run to save: models, values that depend on (kind, name, index) alone, and the shards of every rank.
#pragma once

#include "tests/scratch.h"

#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/latest_whole.h"
#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/saved_shards.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sample {

namespace fs = std::filesystem;
namespace checkpoint = trainyard::checkpoint;
namespace base = trainyard::base;
namespace plan = trainyard::plan;

using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

inline plan::ModelConfig gpt() {
  plan::ModelConfig m;
  m.name = "sample-gpt";
  m.layers = 2, m.hidden = 24, m.heads = 3, m.kv_heads = 3, m.ffn = 40, m.vocabulary = 131, m.context = 17;
  return m;
}

// About 13 million parameters: 52 MB in f32 for each of model, m and v.
inline plan::ModelConfig large() {
  auto m = gpt();
  m.layers = 4, m.hidden = 512, m.heads = 8, m.kv_heads = 8, m.ffn = 2048, m.vocabulary = 512, m.context = 64;
  return m;
}
inline plan::ModelConfig llama() {
  auto m = gpt();
  m.name = "sample-llama";
  m.kv_heads = 1, m.norm = plan::Norm::rms, m.positions = plan::Positions::rotary,
  m.activation = plan::Activation::swiglu;
  m.biases = plan::Biases::off, m.tied = false;
  return m;
}

// Models with heads for four tensor-parallel ranks. Slices of their vocabularies have few logical rows or none.
inline plan::ModelConfig gpt_of_heads() {
  auto m = gpt();
  m.heads = m.kv_heads = 4, m.vocabulary = 131;
  return m;
}
inline plan::ModelConfig llama_of_heads() {
  auto m = llama();
  m.hidden = 32, m.heads = 8, m.kv_heads = 4, m.vocabulary = 5;
  return m;
}

// Models with experts; 2, 3 and 6 divide their numbers. moe has biases, and experts in layers 1 and 2, more in the
// deeper one. moe_llama has a shared part beside the experts, and a layer without experts between two with experts.
inline plan::ModelConfig moe() {
  auto m = gpt();
  m.name = "sample-moe";
  m.layers = 3, m.heads = 4, m.kv_heads = 4;
  m.experts.count = {6, 12}, m.experts.dense_layers = 1, m.experts.top_k = 2, m.experts.ffn = 9;
  m.experts.score = plan::GateScore::sigmoid;
  return m;
}
inline plan::ModelConfig moe_llama() {
  auto m = llama_of_heads();
  m.name = "sample-moe-llama";
  m.layers = 4, m.experts.count = {12, 6}, m.experts.every = 2, m.experts.ffn = 8, m.experts.shared = 1;
  return m;
}

// The kinds of a run with AdamW. A function, because compilers differ in the order of inline variables of two headers.
inline const std::vector<checkpoint::Kind>& all_kinds() {
  static const std::vector<checkpoint::Kind> kinds{checkpoint::Kind::model, checkpoint::Kind::master,
                                                   checkpoint::Kind::state("m"), checkpoint::Kind::state("v")};
  return kinds;
}

// The value that a narrow dtype stores for x.
inline float rounded(float x, base::DType dtype) {
  if (dtype == base::DType::bf16) return static_cast<float>(base::bf16(x));
  return dtype == base::DType::f16 ? static_cast<float>(base::f16(x)) : x;
}

// Any bits but NaN. A narrow value is exactly representable: a model's, and those of states whose names begin with
// "bf16". States of other optimizers have values of their own.
class ValuesOf {  // of one tensor: its kind and name are hashed once
 public:
  ValuesOf(const checkpoint::Kind& kind, const std::string& name, base::DType working) {
    const auto& kinds = all_kinds();
    auto number = static_cast<std::uint64_t>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
    if (number == kinds.size()) number += kind.name().size();
    hash_ += number;
    for (char c : name) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    if (kind.is_state() && kind.name().starts_with("bf16")) dtype_ = base::DType::bf16;
    else if (kind == checkpoint::Kind::model) dtype_ = working;
  }
  float operator()(std::int64_t index) const {
    auto h = (hash_ ^ static_cast<std::uint64_t>(index)) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9ull;
    return rounded(static_cast<float>(static_cast<double>(h >> 11) * 0x1p-53 - 0.5), dtype_);
  }

 private:
  std::uint64_t hash_ = 1469598103934665603ull;
  base::DType dtype_ = base::DType::f32;
};
inline float value(const checkpoint::Kind& kind, const std::string& name, std::int64_t index, base::DType working) {
  return ValuesOf(kind, name, working)(index);
}

inline checkpoint::RunState state(const plan::ModelConfig& model, base::DType dtype, std::int64_t step) {
  checkpoint::RunState s;
  s.step = step;
  s.samples_seen = step * 8;
  s.tokens_seen = step * 8 * 16;
  s.seed = 0xfedcba9876543210ull;
  s.dtype = dtype;
  s.model = model;
  s.identity = {{"sequence", 16}, {"global_batch", 8}, {"learning_rate", 0.001}};
  s.plan = {{"zero", 1}};
  s.versions = {{"trainyard", "0.1.0"}};
  s.provenance = {{"command", "train --model sample"}};
  s.isa = "baseline";
  return s;
}

// The states of Adafactor beside a first moment: one number for each row, and one for each column of a parameter.
inline checkpoint::StoredOptimizer factored() {
  using Shape = checkpoint::StateShape;
  return {"factored",
          {"m", "row_var", "column_var"},
          base::DType::f32,
          {{"column_var", Shape::columns}, {"row_var", Shape::rows}}};
}
inline checkpoint::RunState factored_state(const plan::ModelConfig& model, base::DType dtype, std::int64_t step) {
  auto s = state(model, dtype, step);
  s.optimizer = factored();
  return s;
}

// The dims of a parameter's tensor of a kind: a vector has a row for each element, and one column.
inline std::vector<std::int64_t> dims_of(const checkpoint::StoredOptimizer& optimizer, const checkpoint::Kind& kind,
                                         const std::vector<std::int64_t>& parameter) {
  const auto shape = optimizer.shapes.find(kind.name());
  if (!kind.is_state() || shape == optimizer.shapes.end()) return parameter;
  if (shape->second == checkpoint::StateShape::rows) return {parameter[0]};
  return {parameter.size() > 1 ? parameter[1] : 1};
}
inline bool is_factored(const checkpoint::StoredOptimizer& optimizer, const checkpoint::Kind& kind) {
  return kind.is_state() && optimizer.shapes.contains(kind.name());
}
// All values of a tensor of a kind.
inline std::vector<float> values_of(const checkpoint::RunState& s, const checkpoint::Kind& kind,
                                    const std::string& name, const std::vector<std::int64_t>& parameter) {
  std::vector<float> out;
  std::int64_t count = 1;
  for (const auto dim : dims_of(s.optimizer, kind, parameter)) count *= dim;
  const ValuesOf value(kind, name, s.dtype);
  for (std::int64_t i = 0; i < count; ++i) out.push_back(value(i));
  return out;
}

inline bool is_of_experts(const plan::FlatGroup& flat_group) { return flat_group.name.ends_with(".experts"); }

// What a rank has of one of the model's flat groups. Of a layer's experts it has a run of neighbours, which this
// function finds by their names ("layers.01.experts.05.up.weight"). Tensor-parallel ranks share the experts, and within
// their shares expert-parallel ranks.
inline plan::FlatGroup share_of(plan::FlatGroup flat_group, const plan::Topology& topology, int rank) {
  const auto across = topology.size(plan::Axis::expert), tensor = topology.size(plan::Axis::tensor),
             parts = across * tensor, part = rank % tensor * across + rank / tensor % across;
  if (parts == 1 || !is_of_experts(flat_group)) return flat_group;
  const auto number = [&](const plan::Parameter& p) { return std::stoi(p.name.substr(flat_group.name.size() + 1)); };
  int count = 0;
  for (const auto& p : flat_group.parameters) count = std::max(count, number(p) + 1);
  std::erase_if(flat_group.parameters, [&](const auto& p) { return number(p) * parts / count != part; });
  if (across > 1) flat_group.group = {plan::Axis::expert_data};
  flat_group.others = {plan::Axis::expert, plan::Axis::tensor};
  return flat_group;
}

// What a rank holds of a flat group, back to back. It is found by counting: slices of sharded parameters, and other
// parameters whole.
struct HeldFlatGroup {
  std::vector<float> values;
  std::vector<int> of;  // the parameter that an element belongs to; -1: none
  std::int64_t shard = 0, first = 0;
  std::vector<std::int64_t> begins = {};  // of each parameter, where its first element is; -1: not here
};
inline HeldFlatGroup held_flat_group(const checkpoint::RunState& s, checkpoint::Kind kind,
                                     const plan::FlatGroup& flat_group, const plan::Topology& topology, int rank) {
  HeldFlatGroup held;
  const int data = topology.size(plan::Axis::data), tensor = topology.size(plan::Axis::tensor), at = rank % tensor;
  const int neighbours = flat_group.group.has(plan::Axis::expert_data) ? topology.size(plan::Axis::expert) : 1,
            shards = data / neighbours;  // neighbouring ranks hold other experts
  for (std::size_t p = 0; p < flat_group.parameters.size(); ++p) {
    const auto& parameter = flat_group.parameters[p];
    const ValuesOf value(kind, parameter.name, s.dtype);
    const auto rows = parameter.stored[0], cols = parameter.stored.size() > 1 ? parameter.stored[1] : 1;
    while (held.values.size() % 16 != 0) held.values.push_back(0), held.of.push_back(-1);
    held.begins.push_back(parameter.sharded && at > 0 ? -1 : std::ssize(held.values));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        if (parameter.sharded && (parameter.sharded->dim == 0 ? r * tensor / rows : c * tensor / cols) != at) continue;
        held.values.push_back(r < parameter.shape[0] ? value(r * cols + c) : 0);
        held.of.push_back(static_cast<int>(p));
      }
  }
  while (held.values.size() % static_cast<std::size_t>(64 * shards) != 0)
    held.values.push_back(0), held.of.push_back(-1);
  held.shard = static_cast<std::int64_t>(held.values.size()) / shards;
  held.first = rank / tensor % data / neighbours * held.shard;
  return held;
}

// What a rank saves of its shard. It saves all of it if no other rank holds any of it. Else it saves the parameters
// that no rank before it holds, and the gaps between two of these.
inline std::vector<float> saved_of(const HeldFlatGroup& held, const plan::FlatGroup& flat_group,
                                   const plan::Topology& topology, int rank) {
  const auto begin = static_cast<std::size_t>(held.first), end = begin + static_cast<std::size_t>(held.shard);
  const bool first = rank % topology.size(plan::Axis::tensor) == 0;
  const auto mine = [&](int p) {
    return first || is_of_experts(flat_group) || flat_group.parameters[static_cast<std::size_t>(p)].sharded.has_value();
  };
  bool all = true;
  for (std::size_t p = 0; p < flat_group.parameters.size(); ++p) all = all && mine(static_cast<int>(p));
  std::vector<float> out;
  std::size_t gap = 0;
  bool joins = false;
  for (auto i = begin; i < end; ++i) {
    if (all) {
      out.push_back(held.values[i]);
    } else if (held.of[i] < 0) {
      ++gap;
    } else {
      if (mine(held.of[i])) {
        if (joins) out.insert(out.end(), gap, 0.0f);
        out.push_back(held.values[i]);
      }
      joins = mine(held.of[i]);
      gap = 0;
    }
  }
  return out;
}

// The parameters whose first element is among what the rank saves of its shard.
inline std::vector<plan::Parameter> begun_in(const HeldFlatGroup& held, const plan::FlatGroup& flat_group,
                                             const plan::Topology& topology, int rank) {
  std::vector<plan::Parameter> out;
  for (std::size_t i = 0; i < flat_group.parameters.size(); ++i) {
    const auto& p = flat_group.parameters[i];
    const bool mine = rank % topology.size(plan::Axis::tensor) == 0 || is_of_experts(flat_group);
    if (mine && held.begins[i] >= held.first && held.begins[i] < held.first + held.shard) out.push_back(p);
  }
  return out;
}

// The pipeline stage that has a flat group, by the group's name.
inline int stage_of(const plan::ModelConfig& model, const plan::FlatGroup& flat_group, const plan::Stages& stages) {
  if (stages.stages == 1) return 0;
  std::size_t item = 0;
  if (flat_group.name.starts_with("layers.")) item = 1 + std::stoul(flat_group.name.substr(7));
  if (flat_group.name == "head") item = static_cast<std::size_t>(model.layers) + 1;
  std::size_t part = 0;
  while (static_cast<std::size_t>(stages.boundaries[part + 1]) <= item) ++part;
  return static_cast<int>(part) % stages.stages;
}

// The shards of one rank, with memory of their own.
struct Rank {
  std::vector<std::vector<char>> memory;
  checkpoint::RankShards shards;

  Rank(const checkpoint::RunState& s, int rank, int ranks) : Rank(s, rank, plan::replicas_of(ranks, 1)) {}
  Rank(const checkpoint::RunState& s, int rank, const plan::Topology& topology, const plan::Stages& stages = {}) {
    shards.rank = rank;
    shards.ranks = topology.world();
    const auto flat_groups = plan::flat_groups(s.model);
    const int stage = rank / (topology.world() / stages.stages);
    for (const auto& kind : checkpoint::kinds_of(s)) {
      auto& views = shards.views[kind];
      for (const auto& of_model : flat_groups)
        if (stage_of(s.model, of_model, stages) == stage) {
          const auto flat_group = share_of(of_model, topology, rank);
          const auto held = held_flat_group(s, kind, flat_group, topology, rank);
          if (!is_factored(s.optimizer, kind)) {
            views.push_back(view(s, kind, saved_of(held, flat_group, topology, rank)));
            continue;
          }
          for (const auto& p : begun_in(held, flat_group, topology, rank))
            views.push_back(view(s, kind, values_of(s, kind, p.name, p.shape)));
        }
    }
    shards.boxes = checkpoint::boxes_of_shards(s.model, topology, rank, stages);
  }
  base::View view(const checkpoint::RunState& s, checkpoint::Kind kind, const std::vector<float>& values) {
    const auto dtype = checkpoint::dtype_of(kind, s);
    memory.emplace_back(values.size() * static_cast<std::size_t>(base::size_of(dtype)));
    base::from_f32(dtype, values.data(), std::ssize(values), memory.back().data());
    return base::View(memory.back().data(), dtype, {std::ssize(values)});
  }
};

inline void save(const std::string& folder, const checkpoint::RunState& s, const plan::Topology& topology, int keep = 3,
                 const plan::Stages& stages = {}) {
  for (int r = 0; r < topology.world(); ++r) checkpoint::write_rank(folder, s, Rank(s, r, topology, stages).shards, {});
  checkpoint::publish(folder, s, topology, keep);
}
inline void save(const std::string& folder, const checkpoint::RunState& s, int ranks, int keep = 3) {
  save(folder, s, plan::replicas_of(ranks, 1), keep);
}

// The part of a model that a rank has.
inline plan::ModelPart part_of(const plan::ModelConfig& model, const plan::Topology& topology,
                               const plan::Stages& stages, int rank) {
  return plan::part_of(model, stages, topology.coordinate(rank, plan::Axis::pipe))
      .with_experts({topology.size(plan::Axis::expert), topology.coordinate(rank, plan::Axis::expert)});
}

// The number of elements that differ from what was saved. They are read as the ranks of a topology read: each rank the
// flat groups of its stage, with borrowed ones.
inline std::int64_t differences(checkpoint::Reader& reader, const plan::Topology& topology,
                                const plan::Stages& stages = {}) {
  const auto& s = reader.state();
  std::int64_t wrong = 0;
  auto kinds = checkpoint::kinds_of(s);
  if (s.dtype == base::DType::f32) kinds.push_back(checkpoint::Kind::master);  // its model
  for (const auto& kind : kinds)
    for (int r = 0; r < topology.world(); ++r)
      for (const auto& flat_group : plan::flat_groups(part_of(s.model, topology, stages, r))) {
        if (is_factored(s.optimizer, kind)) {
          for (const auto& p : flat_group.parameters)
            wrong += reader.read_tensor(kind, p) != values_of(s, kind, p.name, p.shape);
          continue;
        }
        const auto source =
            kind == checkpoint::Kind::master && s.dtype == base::DType::f32 ? checkpoint::Kind::model : kind;
        const auto held = held_flat_group(s, source, flat_group, topology, r);
        std::vector<float> got(static_cast<std::size_t>(held.shard), -7.0f);
        reader.read_shard(kind, flat_group, topology, r, got.data());
        for (std::size_t i = 0; i < got.size(); ++i)
          wrong += std::bit_cast<std::uint32_t>(got[i]) !=
                   std::bit_cast<std::uint32_t>(held.values[static_cast<std::size_t>(held.first) + i]);
      }
  return wrong;
}
inline std::int64_t differences(checkpoint::Reader& reader, int ranks) {
  return differences(reader, plan::replicas_of(ranks, 1));
}

}  // namespace sample
