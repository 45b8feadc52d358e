// One all-gather and one sum for each flat group that several pipeline stages hold.
#include "libtrain/params/stage_sums.h"

#include "kernels/cast/cast.h"
#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::params {

StageSums::StageSums(StoreContext& c) : c_(c) {
  std::int64_t most = 0;
  for (int u = 0; u < c.flat_groups(); ++u) {
    const auto& names = c.flat_groups_of_stages;
    if (std::find(names.begin(), names.end(), c.flat_group(u).name) == names.end()) continue;
    TRAINYARD_ASSERT(c.world.stages != nullptr,
                     "flat group {} is held by several stages, which this world has not joined", c.flat_group(u).name);
    flat_groups_.push_back(u);
    most = std::max(most, c.layout(u).shard);
  }
  if (most > 0) staging_ = c.arenas.staging.allocate(c.shape.gradient, {c.world.stages->size() * most});
}

void StageSums::add_up(GradientReduction& gradients) {
  for (const int u : flat_groups_) {
    auto& stages = *c_.world.stages;
    const auto shard = gradients.shard(u);
    const auto all = flat_range(staging_, 0, stages.size() * shard.count());
    c_.communication.wait(c_.compute.record());
    stages.all_gather(c_.communication, shard, all);
    c_.join(c_.communication.record());
    kernels::copy(c_.compute, flat_range(all, 0, shard.count()), shard);
    for (int s = 1; s < stages.size(); ++s)
      kernels::add(c_.compute, shard, flat_range(all, s * shard.count(), shard.count()));
  }
}

}  // namespace trainyard::params
