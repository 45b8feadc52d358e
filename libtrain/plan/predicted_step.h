// PredictedStep: the step time that a plan's file says, for the machine that it names.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trainyard::plan {

// Seconds. `parts` add up to `median`, and have the keys of step_time_parts (plan/step_time.h).
struct PredictedStep {
  std::string machine;  // empty: not predicted
  double median = 0, low = 0, high = 0;
  std::vector<std::pair<std::string, double>> parts;
  bool known() const { return !machine.empty(); }
  bool operator==(const PredictedStep&) const = default;
};

}  // namespace trainyard::plan
