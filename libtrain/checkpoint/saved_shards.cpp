// Computes the boxes and places of the shards of flat groups.
#include "libtrain/checkpoint/saved_shards.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace trainyard::checkpoint {

namespace {

// Calls f(item, segment, index of the block in its part of the model) for each block of the model.
template <class F> void for_each_block(const plan::ModelConfig& model, F&& f) {
  std::int64_t item = 0;
  for (const auto& segment : plan::segments(model))
    for (std::int64_t i = 0; i < segment.times; ++i) f(item++, segment, segment.first + i);
}

// The flat group of a block's experts as held by the ranks of one part of the experts. `flat_group` is its index among
// the block's flat groups.
plan::FlatGroup flat_group_of_part(const plan::Segment& segment, std::int64_t index, std::size_t flat_group,
                                   plan::ExpertShare part) {
  return std::move(segment.kind->held_flat_groups(segment.model, index, part).at(flat_group));
}

// Returns whether, where ranks divide the experts, the flat group holds other experts on other ranks.
bool is_of_parts(const plan::Segment& segment, std::int64_t index, std::size_t flat_group, plan::ExpertShare share) {
  return share.parts > 1 && plan::has_experts(segment.model) &&
         flat_group_of_part(segment, index, flat_group, share).others != plan::Axes();
}

}  // namespace

SavedShards::SavedShards(const plan::ModelConfig& model, plan::Topology topology, const plan::Stages& stages)
    : topology_(std::move(topology)), of_stages_(base::size(stages.stages)) {
  TRAINYARD_ASSERT(stages.stages == topology_.size(plan::Axis::pipe), "{} stages of {} ranks along pipe", stages.stages,
                   topology_.size(plan::Axis::pipe));
  const auto share = plan::has_experts(model) ? plan::expert_share(topology_, 0) : plan::ExpertShare();
  const int parts = share.parts;
  TRAINYARD_ASSERT(divides_experts(model, parts), "{} parts of the experts of {}", parts, model.name);
  std::int32_t tensor = 0;
  for_each_block(model, [&](std::int64_t item, const plan::Segment& segment, std::int64_t index) {
    auto& of_stage = base::at(of_stages_, stages.stage_of(item));
    auto flat_groups = segment.kind->flat_groups(segment.model, index);
    for (std::size_t u = 0; u < flat_groups.size(); ++u) {
      of_stage.push_back({flat_groups_.size(), 1});
      std::vector<std::int32_t> tensors(flat_groups[u].parameters.size());
      for (auto& number : tensors) number = tensor++;
      if (!is_of_parts(segment, index, u, share)) {
        auto layout = plan::layout(flat_groups[u], topology_);
        flat_groups_.push_back({std::move(flat_groups[u]), std::move(layout), std::move(tensors)});
        continue;
      }
      of_stage.back().parts = base::size(parts);
      std::unordered_map<std::string_view, std::int32_t> number_of;  // tensor number by name
      for (std::size_t i = 0; i < tensors.size(); ++i) number_of.emplace(flat_groups[u].parameters[i].name, tensors[i]);
      for (int part = 0; part < parts; ++part) {
        Held held{flat_group_of_part(segment, index, u, {parts, part, share.tensor}), {}, {}};
        held.layout = plan::layout(held.flat_group, topology_);
        for (const auto& p : held.flat_group.parameters) held.tensors.push_back(number_of.at(p.name));
        flat_groups_.push_back(std::move(held));
      }
    }
  });
}

std::int64_t SavedShards::elements(int rank) const {
  std::int64_t n = 0;
  const auto part = base::size(plan::expert_share(topology_, rank).part);
  for (const auto& variants : variants_of(rank)) {
    const auto& held = flat_groups_[variants.first + part % variants.parts];
    for (const auto& range : plan::counted_ranges(held.flat_group, held.layout, topology_, rank))
      n += range.end - range.begin;
  }
  return n;
}

int SavedShards::empty_ranks() const {
  int empty = 0;
  for (int rank = 0; rank < topology_.world(); ++rank)
    empty += any_saved(rank,
                       [&](std::int32_t, const plan::Parameter& p, const plan::HeldRange& held, std::int64_t) {
                         return !boxes_of_held(p, plan::held_part(p, topology_, rank), held.first, held.count).empty();
                       })
                 ? 0
                 : 1;
  return empty;
}

RankBoxes SavedShards::boxes(int rank) const {
  RankBoxes out;
  any_saved(rank, [&](std::int32_t tensor, const plan::Parameter& p, const plan::HeldRange& held, std::int64_t at) {
    for (const auto& box : boxes_of_held(p, plan::held_part(p, topology_, rank), held.first, held.count)) {
      out.push_back({tensor, at, box});
      at = out.back().end();
    }
    return false;
  });
  return out;
}

bool divides(const plan::ModelConfig& model, const plan::Topology& topology) {
  for (const auto& flat_group : plan::flat_groups(model))
    for (const auto& p : flat_group.parameters)
      if (p.sharded && base::at(p.stored, p.sharded->dim) % topology.size(p.sharded->axis) != 0) return false;
  return !plan::has_experts(model) || divides_experts(model, plan::expert_share(topology, 0).parts);
}

bool divides_experts(const plan::ModelConfig& model, std::int64_t parts) {
  const auto& counts = model.experts.count;
  return parts == 1 ||
         (!counts.empty() && std::all_of(counts.begin(), counts.end(), [&](auto count) { return count % parts == 0; }));
}

Places::Places(const SavedShards& shards) {
  const auto& topology = shards.topology();
  for (const auto& [flat_group, layout, tensors] : shards.flat_groups())
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Tensor t{flat_group.parameters[i], layout.shard, layout.offsets[i], topology.size(flat_group.group), 1, {}, {}};
      if (t.parameter.sharded) t.parts = topology.size(t.parameter.sharded->axis);
      t.savers.resize(base::size(t.parts) * base::size(t.shards));
      const auto number = base::size(tensors[i]);
      if (number >= tensors_.size()) tensors_.resize(number + 1);
      tensors_[number] = std::move(t);
    }
  for (int rank = 0; rank < topology.world(); ++rank) {
    shards.for_each_saved(rank, [&](std::int32_t tensor, const plan::HeldRange& held, std::int64_t at) {
      auto& t = base::at(tensors_, tensor);
      const int part = t.parameter.sharded ? topology.coordinate(rank, t.parameter.sharded->axis) : 0;
      const auto in_flat_group = t.offset + held.first;
      base::at(t.savers, part * t.shards + in_flat_group / t.shard) = {rank, at - in_flat_group % t.shard};
    });
    Whole next{rank, 0, 0};
    shards.for_each_begun(rank, [&](std::int32_t tensor, const plan::Parameter& p) {
      base::at(tensors_, tensor).whole = next;
      next.rows += plan::dims_of_state(StateShape::rows, p.shape).front();
      next.columns += plan::dims_of_state(StateShape::columns, p.shape).front();
    });
  }
}

RankBoxes boxes_of_shards(const plan::ModelConfig& model, const plan::Topology& topology, int rank,
                          const plan::Stages& stages) {
  return SavedShards(model, topology, stages).boxes(rank);
}

std::vector<std::int64_t> items_of_parameters(const plan::ModelConfig& model) {
  std::vector<std::int64_t> out;
  for_each_block(model, [&](std::int64_t item, const plan::Segment& segment, std::int64_t index) {
    for (const auto& flat_group : segment.kind->flat_groups(segment.model, index))
      out.insert(out.end(), flat_group.parameters.size(), item);
  });
  return out;
}

}  // namespace trainyard::checkpoint
