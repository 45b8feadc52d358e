// Sums over flat groups.
#include "libtrain/plan/blocks/flat_group_table.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/scratch.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

template <class Of> std::int64_t sum(const std::vector<FlatGroupEntry>& entries, Of of) {
  std::int64_t n = 0;
  for (const auto& e : entries) n += e.times * of(e);
  return n;
}

}  // namespace

FlatGroupTable::FlatGroupTable(const ModelPart& part, const Topology& topology) {
  const auto add = [&](std::vector<FlatGroup> alike, std::int64_t times, bool borrowed) {
    const auto index = flat_groups(), stride = static_cast<std::int64_t>(alike.size());
    for (std::int64_t i = 0; i < stride; ++i) {
      auto& flat_group = base::at(alike, i);
      const auto shards = topology.size(flat_group.group);
      auto flat = layout(flat_group, topology);
      const auto contributions = contributions_of(flat_group, topology);
      entries_.push_back({std::move(flat_group), shards, std::move(flat), times, index + i, stride, 0, 0, 0, borrowed,
                          static_cast<int>(i), contributions});
    }
  };
  for (const auto& segment : segments(part)) {
    add(borrowed_flat_groups(part, segment), 1, true);
    const auto first = entries_.size();
    add(segment.flat_groups(), segment.times, false);
    std::vector<FlatGroupEntry*> used;
    std::vector<std::int64_t> shares;  // how many occurrences of the segment's blocks one flat group has
    for (const auto& occurrence : segment.kind->occurrences(segment.model)) {
      const bool own = occurrence.own >= 0;
      const auto entry = own ? entries_.begin() + static_cast<std::ptrdiff_t>(first) + occurrence.own
                             : std::find_if(entries_.begin(), entries_.end(),
                                            [&](const auto& e) { return e.flat_group.name == occurrence.borrowed; });
      TRAINYARD_ASSERT(own || (entry != entries_.end() && entry->times == 1),
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
}

std::int64_t FlatGroupTable::flat_groups() const {
  return sum(entries_, [](const auto&) { return 1; });
}
std::int64_t FlatGroupTable::occurrences() const {
  return sum(entries_, [](const auto& e) { return e.occurrences; });
}
std::int64_t FlatGroupTable::shard_total() const {
  return sum(entries_, [](const auto& e) { return e.layout.shard; });
}
std::int64_t FlatGroupTable::shard_total_occurrences() const {
  return sum(entries_, [](const auto& e) { return e.occurrences * e.layout.shard; });
}
std::int64_t FlatGroupTable::padded_total() const {
  return sum(entries_, [](const auto& e) { return e.layout.padded; });
}

std::int64_t FlatGroupTable::parameters() const {
  return sum(entries_, [](const auto& e) {
    std::int64_t n = 0;
    for (const auto& p : e.flat_group.parameters) n += p.count();
    return n;
  });
}

std::int64_t FlatGroupTable::largest_shared() const {
  std::int64_t n = 0;
  for (const auto& e : entries_)
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
