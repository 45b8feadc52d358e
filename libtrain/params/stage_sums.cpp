// One exchange of shards among the stages, and one sum for each flat group that several of them hold.
#include "libtrain/params/stage_sums.h"

#include "kernels/cast/cast.h"
#include "kernels/ordered_sum/ordered_sum.h"
#include "libtrain/base/error.h"
#include "libtrain/comm/segments.h"

#include <algorithm>

namespace trainyard::params {

StageSums::StageSums(StoreContext& c) : c_(c), stage_(c.world.coordinate(plan::Axis::pipe)) {
  std::int64_t elements = 0;
  for (const auto& of : c.flat_groups_of_stages)  // all stages in one order, in which messages between two match
    for (int u = 0; u < c.flat_groups(); ++u) {
      if (of.flat_group != c.flat_group(u).name) continue;
      TRAINYARD_ASSERT(c.world.stages != nullptr,
                       "flat group {} is held by several stages, which this world has not joined", of.flat_group);
      shared_.push_back({u, of, elements});
      elements += (std::ssize(of.uses) - of.uses_in(stage_)) * c.layout(u).shard;
    }
  if (elements > 0) arriving_ = c.arenas.staging.allocate(c.shape.gradient, {elements});
}

std::vector<base::View> StageSums::sums_of(const Shared& shared, GradientReduction& gradients) const {
  std::vector<base::View> out;
  const auto shard = c_.layout(shared.flat_group).shard;
  auto next = shared.first;
  int own = 0;
  for (const int stage : shared.of.uses) {
    out.push_back(stage == stage_ ? gradients.sum_of({shared.flat_group, own++}) : flat_range(arriving_, next, shard));
    if (stage != stage_) next += shard;
  }
  return out;
}

void StageSums::add_up(GradientReduction& gradients) {
  if (shared_.empty()) return;
  std::vector<comm::Transfer> transfers;
  const auto peer_of = [&](int stage) {
    const auto& members = c_.world.sharing_stages;
    return static_cast<int>(std::find(members.begin(), members.end(), stage) - members.begin());
  };
  for (const auto& shared : shared_) {
    const auto sums = sums_of(shared, gradients);
    for (std::size_t use = 0; use < sums.size(); ++use) {
      const int stage = shared.of.uses[use];
      if (stage != stage_) transfers.push_back({comm::Transfer::Kind::receive, peer_of(stage), sums[use]});
      for (const int other : shared.of.stages)
        if (stage == stage_ && other != stage_)
          transfers.push_back({comm::Transfer::Kind::send, peer_of(other), sums[use]});
    }
  }
  c_.communication.wait(c_.compute.record());
  comm::exchange_as(*c_.world.stages, c_.communication, "all_gather", transfers);
  c_.join(c_.communication.record());
  for (const auto& shared : shared_) {
    const auto sums = sums_of(shared, gradients);
    std::vector<const void*> pieces;
    for (const auto& sum : sums) pieces.push_back(sum.data);
    // In the place of the first one, because nothing else may be overwritten before it is added.
    kernels::ordered_sum(c_.compute, pieces, sums.front(), base::ReductionRound::first);
    if (const auto own = gradients.shard(shared.flat_group); own.data != sums.front().data)
      kernels::copy(c_.compute, sums.front(), own);
  }
}

}  // namespace trainyard::params
