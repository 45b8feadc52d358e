// A valid plan of two replicas in which a test changes one decision, and the first problem that is reported of it.
#pragma once

#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/presets.h"

#include <string>

namespace trainyard::plan {

inline Plan small_plan() {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 4;
  p.topology = Topology({{Axis::data, 2}});
  p.global_batch = 8, p.sequence = 32;
  return p;
}

inline std::string first_problem(const Plan& p) {
  const auto found = decision_problems(p);
  return found.empty() ? "" : found[0].message;
}

}  // namespace trainyard::plan
