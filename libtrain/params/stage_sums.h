// StageSums: adds the gradients of flat groups that several pipeline stages hold (plan/schedule/stages.h).
#pragma once

#include "libtrain/params/gradients.h"

#include <string>
#include <vector>

namespace trainyard::params {

// Each pipeline stage has summed the gradients of its own occurrences. Ranks that differ only in their stage exchange
// their shards. Every stage adds them in the order of declaration, as one rank with all occurrences does. So all
// copies, and their updates, have the same bits.
class StageSums {
 public:
  // For the flat groups that StoreContext::flat_groups_of_stages names. Takes plan::stage_staging_bytes from the
  // staging arena.
  explicit StageSums(StoreContext& context);
  // Collective. Call it after GradientReduction::finish and before anything reads the shards.
  void add_up(GradientReduction& gradients);

 private:
  StoreContext& c_;
  std::vector<int> flat_groups_;
  base::View staging_;  // the shards of all stages, one after the other
};

}  // namespace trainyard::params
