// FlatGroupTable: the flat groups of a model, or of a part of it, with their layout on a topology, those that are alike
// once: what the planner sums over. FlatGroupSet: one by one, as the stores hold them.
#pragma once

#include "libtrain/plan/inventory.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace trainyard::plan {

struct FlatGroupEntry {
  FlatGroup flat_group;  // the first of them
  int shards = 1;        // the ranks of its group
  FlatLayout layout;
  std::int64_t times = 1;
  std::int64_t index = 0, stride = 1;  // in flat_groups(part) they are index, index + stride, ...
  // Of each, in one micro-batch: occurrences in forward (each is committed once), leases of training and of evaluation.
  std::int64_t occurrences = 0, training_leases = 0, evaluation_leases = 0;
  // A copy of a flat group that a block of another part owns: that one counts and saves it.
  bool borrowed = false;
  int place = 0;          // among the flat groups of its block
  int contributions = 1;  // plan::contributions_of
};

class FlatGroupTable {
 public:
  FlatGroupTable(const ModelPart& part, const Topology& topology);

  const std::vector<FlatGroupEntry>& entries() const { return entries_; }
  std::int64_t flat_groups() const;
  std::int64_t occurrences() const;
  std::int64_t parameters() const;               // logical, each once
  std::int64_t shard_total() const;              // elements of a rank's shards, over flat groups
  std::int64_t shard_total_occurrences() const;  // over occurrences: a tied table counts twice
  std::int64_t padded_total() const;
  std::int64_t largest_shared() const;  // padded, of flat groups of several shards; 0: there is none

 private:
  std::vector<FlatGroupEntry> entries_;
};

// Buffers that flat groups take turns in. Those of layers rotate through `gathered_layers`, each kind by itself: the
// flat groups of the layers, and those that their branches have of their own. Every other flat group has a slot of its
// own.
class SlotPlan {
 public:
  // Of gradients, where has_buffer is given: flat groups that have no buffer have a slot without elements, and where
  // some of a kind have several contributions all slots that it rotates through are as large, as those of one flat
  // group take turns.
  SlotPlan(const FlatGroupTable& table, int gathered_layers,
           const std::function<bool(const FlatGroupEntry&)>& has_buffer = {});
  // flat group: index into flat_groups(part); turn: the contribution.
  int slot_of(int flat_group, int turn = 0) const {
    const auto& s = slot_of_.at(static_cast<std::size_t>(flat_group));
    return s.first + (s.place + turn) % s.slots;
  }
  const std::vector<std::int64_t>& elements() const { return elements_; }  // per slot
  std::int64_t bytes(std::int64_t element_bytes) const;                    // each slot rounded up to 64 bytes

 private:
  struct Slots {  // that a flat group rotates through, and which of them is its first
    int first = -1, slots = 1, place = 0;
  };
  std::vector<Slots> slot_of_;
  std::vector<std::int64_t> elements_;
};

struct FlatGroupSet {
  FlatGroupSet(const ModelPart& part, const Topology& topology);

  FlatGroupTable table;
  std::vector<FlatGroup> flat_groups;
  std::vector<FlatLayout> layouts;      // one per flat group
  std::vector<bool> borrowed;           // likewise (FlatGroupEntry)
  std::vector<int> contributions;       // likewise
  std::vector<int> places;              // likewise
  std::vector<Occurrence> occurrences;  // forward order

  int occurrence_index(Occurrence occurrence) const;  // position in `occurrences`
  std::int64_t padded_of(Occurrence occurrence) const {
    return layouts[static_cast<std::size_t>(occurrence.flat_group)].padded;
  }
  std::int64_t shard_of(Occurrence occurrence) const {
    return layouts[static_cast<std::size_t>(occurrence.flat_group)].shard;
  }
};

}  // namespace trainyard::plan
