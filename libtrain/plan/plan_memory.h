// PlanMemory: the memory of a plan's ranks with one recomputation after the other.
#pragma once

#include "libtrain/plan/plan.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace trainyard::plan {

// Reads the plan's decisions but plan.recompute, and no prediction. The plan outlives it, and keeps them. Stages begin
// where --partition lets them begin with the recomputation that is asked for; what does not depend on it is counted
// once for all that begin alike.
class PlanMemory {
 public:
  explicit PlanMemory(const Plan& plan) : plan_(plan) {}
  MemoryBytes largest(const Recomputation& recompute);        // of a rank of the stage that needs most
  std::int64_t most_on_host(const Recomputation& recompute);  // plan::most_on_host

 private:
  const std::vector<PartMemory>& stages_with(const Recomputation& recompute);
  const Plan& plan_;
  std::vector<std::pair<Stages, std::vector<PartMemory>>> known_;
};

}  // namespace trainyard::plan
