// StoreContext: what every part of a parameter store works with: flat groups, ranks, execs, arenas.
#pragma once

#include "libtrain/comm/world.h"
#include "libtrain/params/transfers.h"
#include "libtrain/plan/states.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::params {

// Borrowed by the parts of one store; outlives them. `communication` is where collectives of all groups run: a worker
// Exec, or `compute` itself when the world has one rank (then nothing leaves the rank and the team of `compute` does
// the adding).
struct StoreContext {
  const plan::FlatGroupSet& set;
  plan::StateShape shape;
  plan::Reduction reduction;
  comm::World& world;
  tensor::Exec& compute;
  tensor::Exec& communication;
  tensor::Arena& parameters;
  tensor::Arena& gathered;
  tensor::Arena& gradients;
  tensor::Arena& flat_group_gradients;
  tensor::Arena& optimizer;
  tensor::Arena& staging;
  double wait_seconds = 0;  // compute blocked on collectives since last read
  // Of whole flat groups over their groups; all of them go this way.
  Transfers transfers{communication, world.topology.size(plan::Axis::tensor) > 1 ? Transfers::Issue::between
                                                                                 : Transfers::Issue::at_once};
  std::int64_t segment_bytes = plan::segment_bytes;
  std::vector<std::string> flat_groups_of_stages =
      {};  // names of flat groups that other stages hold, too (plan/stages.h)

  int flat_groups() const { return static_cast<int>(set.flat_groups.size()); }
  const plan::FlatLayout& layout(int flat_group) const { return set.layouts[static_cast<std::size_t>(flat_group)]; }
  const plan::FlatGroup& flat_group(int u) const { return set.flat_groups[static_cast<std::size_t>(u)]; }
  // Who holds the shards of a flat group: their ranks are those of its shards.
  comm::Communicator& group(int u) const { return world.group(flat_group(u).group); }
  bool shared() const { return set.table.largest_shared() > 0; }  // is any flat group cut over several ranks
  // Gathers the shards of a flat group, after `ready`, which is a place in the order of either Exec.
  Transfers::Ticket gather(int flat_group, base::View shard, base::View whole, const tensor::Event& ready);
  // In how many segments a transfer of so many bytes goes, all shards together, and the elements of each shard that
  // segment i has.
  std::int64_t segments(int flat_group, std::int64_t bytes) const;
  static std::pair<std::int64_t, std::int64_t> segment(std::int64_t shard, std::int64_t segments, std::int64_t i);
  void join(const tensor::Event& event);  // compute waits for the event; the time counts as exposed communication
};

// What a rank holds of the parameter `slot` of a flat group, inside a buffer that holds all of the flat group: dense.
base::View slot_view(const plan::FlatLayout& layout, base::View whole, int slot);
// Elements [first, first + count) of a flat view.
base::View flat_range(base::View flat, std::int64_t first, std::int64_t count);

}  // namespace trainyard::params
