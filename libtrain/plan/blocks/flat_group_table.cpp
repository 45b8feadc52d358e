// Sums over flat groups.
#include "libtrain/plan/blocks/flat_group_table.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/memo.h"
#include "libtrain/plan/blocks/known_model.h"
#include "libtrain/plan/blocks/scratch.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainyard::plan {

namespace {

template <class Of> std::int64_t sum(const std::vector<FlatGroupEntry>& entries, Of of) {
  std::int64_t n = 0;
  for (const auto& e : entries) n += e.times * of(e);
  return n;
}

using Entries = std::vector<FlatGroupEntry>;

// Everything of a topology that the layouts of flat groups depend on.
std::vector<std::int64_t> sizes_of(const Topology& topology) {
  std::vector<std::int64_t> out;
  for (const auto axis : {Axis::pipe, Axis::data, Axis::context, Axis::tensor, Axis::expert, Axis::expert_data})
    out.push_back(topology.size(axis));
  return out;
}
// Whether these sizes decide the layout.
bool has_common_axes(const FlatGroup& flat_group) {
  constexpr Axes others = {Axis::expert_outer, Axis::expert_inner,    Axis::zero_copies,
                           Axis::zero_group,   Axis::reduction_outer, Axis::reduction_inner};
  return !flat_group.group.meets(others) &&
         std::none_of(flat_group.parameters.begin(), flat_group.parameters.end(),
                      [&](const Parameter& p) { return p.sharded && others.has(p.sharded->axis); });
}

void append(std::vector<std::int64_t>& key, const ExpertShare& s) {
  key.insert(key.end(), {s.parts, s.part, s.tensor, s.chunks, s.node});
}

// Of the flat groups of one of the segment's blocks. They are as long in blocks that are alike.
using SharedLayouts = std::shared_ptr<const std::vector<FlatLayout>>;
SharedLayouts shared_layouts(const Segment& s, const std::vector<FlatGroup>& flat_groups, const Topology& topology) {
  constexpr std::size_t most_parameters = 1 << 16;
  using Key = std::tuple<std::shared_ptr<const ModelConfig>, const BlockKind*, std::vector<std::int64_t>>;
  thread_local base::Memo<Key, SharedLayouts> known(most_parameters);
  Key key{s.owner, s.kind, sizes_of(topology)};
  append(std::get<2>(key), s.experts);
  if (auto before = known.find(key)) return *std::move(before);
  std::vector<FlatLayout> layouts;
  std::size_t parameters = 1;
  for (const auto& flat_group : flat_groups)
    layouts.push_back(layout(flat_group, topology)), parameters += flat_group.parameters.size();
  auto made = std::make_shared<const std::vector<FlatLayout>>(std::move(layouts));
  if (!std::all_of(flat_groups.begin(), flat_groups.end(), has_common_axes)) return made;
  return known.keep(std::move(key), std::move(made), parameters);
}

// Counts the occurrences of the segment's blocks, whose own flat groups begin at entry `first`.
void count_occurrences(Entries& entries, const Segment& segment, std::size_t first) {
  std::vector<FlatGroupEntry*> used;
  std::vector<std::int64_t> shares;  // how many occurrences of the segment's blocks one flat group has
  for (const auto& occurrence : segment.kind->occurrences(segment.model)) {
    const bool own = occurrence.own >= 0;
    const auto entry = own ? entries.begin() + static_cast<std::ptrdiff_t>(first) + occurrence.own
                           : std::find_if(entries.begin(), entries.end(),
                                          [&](const auto& e) { return e.flat_group.name == occurrence.borrowed; });
    TRAINYARD_ASSERT(own || (entry != entries.end() && entry->times == 1),
                     "no block before owns the one flat group '{}'", occurrence.borrowed);
    used.push_back(&*entry);
    shares.push_back(own ? 1 : segment.times);
  }
  const auto accesses = segment.kind->accesses(segment.model);
  for (std::size_t u = 0; u < used.size(); ++u) {
    const auto count = [&](const std::vector<int>& leases) {
      return std::count(leases.begin(), leases.end(), static_cast<int>(u));
    };
    const auto backward = std::count_if(accesses.backward.begin(), accesses.backward.end(), [&](const auto& step) {
      return step.kind == Access::Kind::lease && step.occurrence == static_cast<int>(u);
    });
    used[u]->occurrences += shares[u];
    used[u]->training_leases += shares[u] * (count(accesses.forward) + backward);
    used[u]->evaluation_leases += shares[u] * count(accesses.evaluation);
  }
}

Entries entries_of(const ModelPart& part, const Topology& topology) {
  Entries out;
  using Group = std::shared_ptr<const FlatGroup>;
  using Layout = std::shared_ptr<const FlatLayout>;
  std::int64_t index = 0;
  const auto add = [&](Group group, Layout flat, std::int64_t times, std::int64_t place, std::int64_t of) {
    out.push_back({.flat_group = *group,
                   .shards = topology.size(group->group),
                   .layout = *flat,
                   .times = times,
                   .index = index + place,
                   .stride = of,
                   .frozen = is_frozen(*group),
                   .place = static_cast<int>(place),
                   .contributions = contributions_of(*group, topology),
                   .group_owner = std::move(group),
                   .layout_owner = std::move(flat)});
    if (place + 1 == of) index += times * of;
  };
  for (const auto& segment : segments(part)) {
    const auto borrowed = borrowed_flat_groups(part, segment);
    for (std::int64_t i = 0; i < std::ssize(borrowed); ++i) {
      const auto& group = base::at(borrowed, i);
      add(group, std::make_shared<const FlatLayout>(layout(*group, topology)), 1, i, std::ssize(borrowed));
      out.back().borrowed = true;
    }
    const auto first = out.size();
    const auto own = shared_flat_groups(segment);
    const auto layouts = shared_layouts(segment, *own, topology);
    for (std::int64_t i = 0; i < std::ssize(*own); ++i)
      add({own, &base::at(*own, i)}, {layouts, &base::at(*layouts, i)}, segment.times, i, std::ssize(*own));
    count_occurrences(out, segment, first);
  }
  return out;
}

}  // namespace

FlatGroupTable::FlatGroupTable(const ModelPart& part, const Topology& topology) {
  constexpr std::size_t most_entries = 1 << 14;
  using Key = std::tuple<std::shared_ptr<const KnownModel>, std::vector<std::int64_t>>;
  thread_local base::Memo<Key, std::shared_ptr<const Entries>> known(most_entries);
  Key key{known_model(part.model), sizes_of(topology)};
  append(std::get<1>(key), part.experts);
  for (const auto& items : part.chunks) std::get<1>(key).insert(std::get<1>(key).end(), {items.begin, items.end});
  if (auto before = known.find(key)) {
    entries_ = *std::move(before);
    return;
  }
  entries_ = std::make_shared<const Entries>(entries_of(part, topology));
  if (std::all_of(entries_->begin(), entries_->end(), [](const auto& e) { return has_common_axes(e.flat_group); }))
    known.keep(std::move(key), entries_, 1 + entries_->size());
}

std::int64_t FlatGroupTable::flat_groups() const {
  return sum(*entries_, [](const auto&) { return 1; });
}
std::int64_t FlatGroupTable::occurrences() const {
  return sum(*entries_, [](const auto& e) { return e.occurrences; });
}
std::int64_t FlatGroupTable::shard_total() const {
  return sum(*entries_, [](const auto& e) { return e.layout.shard; });
}
std::int64_t FlatGroupTable::shard_total_occurrences() const {
  return sum(*entries_, [](const auto& e) { return e.occurrences * e.layout.shard; });
}
std::int64_t FlatGroupTable::padded_total() const {
  return sum(*entries_, [](const auto& e) { return e.layout.padded; });
}

std::int64_t FlatGroupTable::parameters() const {
  return sum(*entries_, [](const auto& e) {
    std::int64_t n = 0;
    for (const auto& p : e.flat_group.parameters) n += p.count();
    return n;
  });
}

std::int64_t FlatGroupTable::largest_shared() const {
  std::int64_t n = 0;
  for (const auto& e : *entries_)
    if (e.shards > 1) n = std::max(n, e.layout.padded);
  return n;
}

// The flat groups before and after the layers have slots in their order. The slots of layers lie together, between
// them.
SlotPlan::SlotPlan(const FlatGroupTable& table, int gathered_layers,
                   const std::function<bool(const FlatGroupEntry&)>& has_buffer, bool by_turns)
    : slot_of_(base::size(table.flat_groups())) {
  struct Rotation {  // for the flat groups of layers with the same place in their block
    std::int64_t flat_groups = 0, seen = 0;
    int first = 0, slots = 1;
    bool takes_turns = false;  // some flat group has several contributions
  };
  std::vector<Rotation> rotations;
  const auto rotation_of = [&](const FlatGroupEntry& e) -> Rotation& {
    while (std::ssize(rotations) <= e.place) rotations.emplace_back();
    return base::at(rotations, e.place);
  };
  for (const auto& e : table.entries()) {
    if (e.flat_group.part != Part::layers) continue;
    auto& rotation = rotation_of(e);
    rotation.flat_groups += e.times;
    rotation.takes_turns = rotation.takes_turns || by_turns || (has_buffer && e.contributions > 1);
  }
  bool begun = false;
  for (const auto& e : table.entries()) {
    const bool rotates = e.flat_group.part == Part::layers;
    if (rotates && !begun)
      for (auto& r : rotations) {
        r.first = static_cast<int>(elements_.size());
        r.slots = static_cast<int>(std::clamp<std::int64_t>(r.flat_groups, 1, gathered_layers));
        elements_.resize(elements_.size() + base::size(std::min<std::int64_t>(r.flat_groups, gathered_layers)), 0);
      }
    begun = begun || rotates;
    const auto elements = !has_buffer || has_buffer(e) ? e.layout.padded : 0;
    for (std::int64_t i = 0; i < e.times; ++i) {
      auto& slot = base::at(slot_of_, e.index + i * e.stride);
      if (rotates) {
        auto& r = rotation_of(e);
        slot = {r.first, r.slots, static_cast<int>(r.seen++ % r.slots)};
      } else {
        slot = {static_cast<int>(elements_.size()), 1, 0};
        elements_.push_back(0);
      }
      const bool all = rotates && rotation_of(e).takes_turns;
      for (int s = all ? 0 : slot.place; s < (all ? slot.slots : slot.place + 1); ++s) {
        auto& of_slot = base::at(elements_, slot.first + s);
        of_slot = std::max(of_slot, elements);
      }
    }
  }
}

std::int64_t SlotPlan::bytes(std::int64_t element_bytes) const {
  std::int64_t n = 0;
  for (auto e : elements_) n += base::aligned(e * element_bytes);
  return n;
}

FlatGroupSet::FlatGroupSet(const ModelPart& part, const Topology& topology)
    : table(part, topology), flat_groups(plan::flat_groups(part)), occurrences(plan::occurrences(part)) {
  for (const auto& flat_group : flat_groups) {
    layouts.push_back(layout(flat_group, topology));
    contributions.push_back(contributions_of(flat_group, topology));
  }
  for (int u = 0; u < std::ssize(flat_groups); ++u)
    if (std::none_of(occurrences.begin(), occurrences.end(), [&](const auto& o) { return o.flat_group == u; }))
      occurrences.push_back({u, 0});
  borrowed.resize(flat_groups.size());
  places.resize(flat_groups.size());
  for (const auto& e : table.entries())
    if (e.borrowed) base::at(borrowed, e.index) = true;
  for (const auto& e : table.entries())
    for (std::int64_t i = 0; i < e.times; ++i) base::at(places, e.index + i * e.stride) = e.place;
}

int FlatGroupSet::occurrence_index(Occurrence occurrence) const {
  for (std::size_t i = 0; i < occurrences.size(); ++i)
    if (occurrences[i] == occurrence) return static_cast<int>(i);
  TRAINYARD_ASSERT(false, "flat group {} has no occurrence {}", occurrence.flat_group, occurrence.index);
  return -1;
}

}  // namespace trainyard::plan
