// StageSums: what stages that hold a flat group together (plan/stages.h) make of their gradients: the sum of those of
// all.
#pragma once

#include "libtrain/params/gradients.h"

#include <string>
#include <vector>

namespace trainyard::params {

// Each stage has folded the gradients of its own occurrences. Their shards are exchanged between the ranks that differ
// in their stage alone, and every stage adds them in the order of declaration, as one rank that has all occurrences
// does: so the copies have the same bits, and so have their updates.
class StageSums {
 public:
  // The flat groups of the context that it names (StoreContext::flat_groups_of_stages). Takes their memory in the
  // staging arena: plan::stage_staging_bytes.
  explicit StageSums(StoreContext& context);
  // Collective, between GradientReduction::finish and whoever reads its shards.
  void add_up(GradientReduction& gradients);

 private:
  StoreContext& c_;
  std::vector<int> flat_groups_;
  base::View staging_;  // shards of all stages behind one another
};

}  // namespace trainyard::params
