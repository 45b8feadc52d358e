// Sizes and the flat layout of a flat group.
#include "libtrain/plan/blocks/flat_group.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

std::int64_t product(const std::vector<std::int64_t>& dims) {
  std::int64_t n = 1;
  for (auto d : dims) n *= d;
  return n;
}

}  // namespace

std::int64_t Parameter::count() const { return product(shape); }
std::int64_t Parameter::stored_count() const { return product(stored); }

bool is_frozen(const FlatGroup& flat_group) {
  return !flat_group.parameters.empty() &&
         std::all_of(flat_group.parameters.begin(), flat_group.parameters.end(),
                     [](const Parameter& p) { return p.update.kind == Update::Kind::frozen; });
}

int contributions_of(const FlatGroup& flat_group, const Topology& topology) {
  return flat_group.group.has(Axis::expert_data) ? topology.size(Axis::expert) : 1;
}

int index_of(const FlatGroup& flat_group, std::string_view name) {
  const int index = find_index(flat_group, name);
  TRAINYARD_ASSERT(index >= 0, "flat group '{}' has no parameter '{}'", flat_group.name, name);
  return index;
}

int find_index(const FlatGroup& flat_group, std::string_view name) {
  for (std::size_t i = 0; i < flat_group.parameters.size(); ++i)
    if (std::string_view(flat_group.parameters[i].name).substr(flat_group.name.size() + 1) == name)
      return static_cast<int>(i);
  return -1;
}

HeldPart held_part(const Parameter& p, const Topology& topology, int rank) {
  HeldPart part{std::vector<std::int64_t>(p.stored.size(), 0), p.stored};
  if (!p.sharded) return part;
  const auto dim = base::size(p.sharded->dim);
  const auto ranks = topology.size(p.sharded->axis);
  TRAINYARD_ASSERT(p.stored[dim] % ranks == 0, "dim {} of {}, {}, over {} ranks", dim, p.name, p.stored[dim], ranks);
  part.extent[dim] /= ranks;
  part.start[dim] = topology.coordinate(rank, p.sharded->axis) * part.extent[dim];
  return part;
}

std::int64_t FlatLayout::count(std::size_t parameter) const { return product(shapes[parameter]); }

FlatLayout layout(const FlatGroup& flat_group, int shards) {
  return layout(flat_group, Topology({{Axis::data, shards}}));
}

FlatLayout layout(const FlatGroup& flat_group, const Topology& topology) {
  const auto shards = topology.size(flat_group.group);
  TRAINYARD_ASSERT(shards >= 1, "{} shards", shards);
  FlatLayout l;
  l.offsets.reserve(flat_group.parameters.size());
  l.shapes.reserve(flat_group.parameters.size());
  for (const auto& p : flat_group.parameters) {
    l.shapes.push_back(held_part(p, topology, 0).extent);
    l.offsets.push_back((l.used + 15) / 16 * 16);
    l.used = l.offsets.back() + product(l.shapes.back());
  }
  const std::int64_t grain = std::int64_t{64} * shards;
  l.padded = (l.used + grain - 1) / grain * grain;
  l.shard = l.padded / shards;
  return l;
}

}  // namespace trainyard::plan
