// ZeroGroups: neighbouring data-parallel ranks among which the weights of ZeRO 3 are sharded, so that a lease gathers
// inside a group alone. This is hpZ of Wang et al. 2023, "ZeRO++: extremely efficient collective communication for
// giant model training".
#pragma once

#include "libtrain/plan/grid/topology.h"

namespace trainyard::plan {

// Every rank still has its shard of a flat group, one of as many as there are data-parallel ranks, and updates it.
// Beside it a rank has a group shard: the weights of `copies` shards that lie together. The group shards of a group are
// the whole flat group. After an update each rank sends its shard to the ranks that have it in their group shards.
// Ranks are numbered along the data axis.
class ZeroGroups {
 public:
  explicit ZeroGroups(const Topology& topology)
      : ranks_(topology.size(Axis::zero_group)), copies_(topology.size(Axis::zero_copies)) {}
  bool any() const { return ranks_ > 1; }
  int ranks() const { return ranks_; }    // of a group; 1: there are no groups
  int copies() const { return copies_; }  // groups, which is how many shards a group shard has
  // Ranks first_source(rank) to first_source(rank) + copies() - 1 have the shards of the rank's group shard.
  int first_source(int rank) const { return rank % ranks_ * copies_; }
  int receiver(int rank, int group) const { return group * ranks_ + rank / copies_; }  // of the rank's shard
  bool keeps_own(int rank) const { return rank % ranks_ == rank / copies_; }           // is it its own receiver?

 private:
  int ranks_, copies_;
};

}  // namespace trainyard::plan
