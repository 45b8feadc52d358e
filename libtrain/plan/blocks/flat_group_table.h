// FlatGroupTable: the flat groups of a model or of a part of it, with their layout on a topology. Groups that are alike
// are one entry; the planner sums over entries. FlatGroupSet: the groups one by one, as the stores hold them.
#pragma once

#include "libtrain/plan/blocks/inventory.h"

#include "libtrain/base/index.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace trainyard::plan {

struct FlatGroupEntry {
  const FlatGroup& flat_group;  // the first of the groups that are alike
  int shards = 1;               // ranks of the group's own group of ranks
  const FlatLayout& layout;
  std::int64_t times = 1;
  std::int64_t index = 0, stride = 1;  // in flat_groups(part) the groups are at index, index + stride, ...
  // Of each group, in one micro-batch: occurrences in forward (each is committed once, unless frozen), leases in
  // training and in evaluation.
  std::int64_t occurrences = 0, training_leases = 0, evaluation_leases = 0;
  // A copy of a flat group that a block of another part owns. The owner counts and saves it.
  bool borrowed = false;
  bool frozen = false;    // plan::is_frozen: its occurrences are not committed
  int place = 0;          // number of the group among the flat groups of its block
  int contributions = 1;  // plan::contributions_of
  std::shared_ptr<const FlatGroup> group_owner = {};
  std::shared_ptr<const FlatLayout> layout_owner = {};
};

// The thread keeps the last ones, so that making one again, or a copy, is cheap.
class FlatGroupTable {
 public:
  FlatGroupTable(const ModelPart& part, const Topology& topology);

  const std::vector<FlatGroupEntry>& entries() const { return *entries_; }
  std::int64_t flat_groups() const;
  std::int64_t occurrences() const;
  std::int64_t parameters() const;               // logical, each counted once
  std::int64_t shard_total() const;              // elements of a rank's shards, summed over flat groups
  std::int64_t shard_total_occurrences() const;  // summed over occurrences: a tied table counts twice
  std::int64_t padded_total() const;
  std::int64_t largest_shared()
      const;  // padded elements of the largest flat group with several shards; 0: there is none

 private:
  std::shared_ptr<const std::vector<FlatGroupEntry>> entries_;
};

// Which buffer, here a slot, each flat group uses. Layers use slots in turn: layer i uses the slot that layer i -
// gathered_layers used. The flat groups of one layer have slots of their own, by their `place` in the layer: the
// layer's own group, and the group of each branch. Every flat group outside the layers has a slot of its own.
class SlotPlan {
 public:
  // With has_buffer, these are the slots of gradients. A flat group without a buffer then has an empty slot. A group
  // with several contributions uses several slots in turn. So if some group of a rotation has several contributions,
  // all slots of that rotation have the same size. So it is with `by_turns` for all groups.
  SlotPlan(const FlatGroupTable& table, int gathered_layers,
           const std::function<bool(const FlatGroupEntry&)>& has_buffer = {}, bool by_turns = false);
  // flat_group: index into flat_groups(part); turn: the contribution, or any count with `by_turns`.
  int slot_of(int flat_group, std::int64_t turn = 0) const {
    const auto& s = slot_of_.at(base::size(flat_group));
    return s.first + static_cast<int>((s.place + turn) % s.slots);
  }
  const std::vector<std::int64_t>& elements() const { return elements_; }  // of each slot
  std::int64_t flat_groups() const { return std::ssize(slot_of_); }
  std::int64_t bytes(std::int64_t element_bytes) const;  // each slot rounded up to 64 bytes

 private:
  struct Slots {  // slots first to first + slots - 1, which a flat group uses in turn; it begins at first + place
    int first = -1, slots = 1, place = 0;
  };
  std::vector<Slots> slot_of_;
  std::vector<std::int64_t> elements_;
};

struct FlatGroupSet {
  FlatGroupSet(const ModelPart& part, const Topology& topology);

  FlatGroupTable table;
  std::vector<FlatGroup> flat_groups;
  std::vector<FlatLayout> layouts;  // one for each flat group
  std::vector<bool> borrowed;       // one for each flat group (FlatGroupEntry)
  std::vector<int> contributions;   // one for each flat group
  std::vector<int> places;          // one for each flat group (FlatGroupEntry::place)
  // Forward order. Then one for each flat group that no block here uses, but those of other pipeline stages do.
  std::vector<Occurrence> occurrences;

  int occurrence_index(Occurrence occurrence) const;  // index in `occurrences`
  std::int64_t padded_of(Occurrence occurrence) const { return base::at(layouts, occurrence.flat_group).padded; }
  std::int64_t shard_of(Occurrence occurrence) const { return base::at(layouts, occurrence.flat_group).shard; }
};

}  // namespace trainyard::plan
