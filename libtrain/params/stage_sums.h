// StageSums: adds the gradients of flat groups that several pipeline stages hold (plan/schedule/stages.h).
#pragma once

#include "libtrain/params/gradients.h"

#include <vector>

namespace trainyard::params {

// Each pipeline stage has summed the gradients of each of its own occurrences. Ranks that differ only in their stage
// exchange their shards of these sums. Every stage adds the sums of all occurrences in the order of declaration, as one
// rank with all occurrences does. So all copies, and their updates, have the same bits.
class StageSums {
 public:
  // For the flat groups of StoreContext::flat_groups_of_stages that this rank holds. Takes plan::stage_staging_bytes
  // from the staging arena.
  explicit StageSums(StoreContext& context);
  // Collective over the stages of World::sharing_stages. Call it after GradientReduction::finish and before anything
  // reads the shards.
  void add_up(GradientReduction& gradients);

 private:
  struct Shared {
    int flat_group;
    const plan::FlatGroupOfStages& of;
    std::int64_t first;  // where in `arriving_` the shards of other stages' occurrences begin
  };
  // This rank's shard of the sum of each occurrence, in the order of the model: its own, and places in `arriving_`.
  std::vector<base::View> sums_of(const Shared& shared, GradientReduction& gradients) const;
  StoreContext& c_;
  int stage_ = 0;
  base::View arriving_;
  std::vector<Shared> shared_;
};

}  // namespace trainyard::params
