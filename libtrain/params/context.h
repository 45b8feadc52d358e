// StoreContext: what every part of a parameter store works with: flat groups, ranks, Execs (rank_execs.h) and arenas.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/params/offloaded_states.h"
#include "libtrain/params/rank_execs.h"
#include "libtrain/plan/cost/states.h"
#include "libtrain/plan/grid/zero_groups.h"
#include "libtrain/plan/schedule/stages.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::params {

struct StoreArenas {
  tensor::Arena& parameters;
  tensor::Arena& gathered;
  tensor::Arena& gradients;
  tensor::Arena& micro_batch_gradients;
  tensor::Arena& optimizer;
  tensor::Arena& staging;
};

// The parts of a store refer to it, so it outlives them.
struct StoreContext : RankExecs {
  const plan::FlatGroupSet& set;
  plan::StateShape shape;
  plan::Reduction reduction;
  StoreArenas arenas;
  std::int64_t segment_bytes = plan::segment_bytes;
  // Those that several pipeline stages hold.
  std::vector<plan::FlatGroupOfStages> flat_groups_of_stages = {};
  OffloadedStates* offloaded = nullptr;  // null: all states are in memory

  int flat_groups() const { return static_cast<int>(set.flat_groups.size()); }
  const plan::FlatLayout& layout(int flat_group) const { return base::at(set.layouts, flat_group); }
  bool is_frozen(int u) const { return plan::is_frozen(flat_group(u)); }
  const plan::FlatGroup& flat_group(int u) const { return base::at(set.flat_groups, u); }
  // The ranks over which a flat group is sharded: rank r of this communicator holds shard r.
  comm::Communicator& group(int u) const { return world.group(flat_group(u).group); }
  // The ranks among which a lease gathers with ZeRO 3: a zero group, if there are such (plan/grid/zero_groups.h).
  comm::Communicator& gathering_group(int u) const {
    return plan::ZeroGroups(shape.topology).any() ? world.group({plan::Axis::zero_group}) : group(u);
  }
  bool is_offloaded(int flat_group, plan::Held held, std::size_t state = 0) const {
    return offloaded != nullptr && offloaded->has(flat_group, held, state);
  }
  // Before the weights of a flat group are read: an earlier step may still update them in the background.
  // Returns whether `compute` now has something to wait for that it had not before.
  bool await_update(int flat_group) const {
    if (offloaded == nullptr || !offloaded->is_updating(flat_group)) return false;
    offloaded->await_update(flat_group);
    return true;
  }
  bool shared() const { return set.table.largest_shared() > 0; }  // is any flat group sharded over several ranks
  // Adds an all-gather of a flat group's shards into `whole` to `transfers`. It begins after the event `ready`, which
  // either Exec may have recorded.
  // `before` runs right before it on the communication Exec, and may wait.
  Transfers::Ticket gather(int flat_group, base::View shard, base::View whole, const tensor::Event& ready,
                           std::function<void()> before = {}) {
    return gather(group(flat_group), shard, whole, ready, std::move(before));
  }
  Transfers::Ticket gather(comm::Communicator& among, base::View shard, base::View whole, const tensor::Event& ready,
                           std::function<void()> before = {});
  // segments: into how many segments a transfer of `bytes`, all shards together, is divided. segment: the elements of
  // each shard in segment i, as {first, count}.
  std::int64_t segments(int flat_group, std::int64_t bytes) const;
  static std::pair<std::int64_t, std::int64_t> segment(std::int64_t shard, std::int64_t segments, std::int64_t i);
};

// This rank's part of parameter number `slot` of a flat group, as a dense view into `whole`, a buffer with the whole
// flat group.
base::View slot_view(const plan::FlatLayout& layout, base::View whole, int slot);
// Elements [first, first + count) of a flat view.
base::View flat_range(base::View flat, std::int64_t first, std::int64_t count);

}  // namespace trainyard::params
