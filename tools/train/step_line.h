// StepLine: what progress says about a step, within 80 columns.
#pragma once

#include "libtrain/engine/metrics.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::tools {

class StepLine {
 public:
  // As step_text says it, with the last validation there was and the time left by the mean of the steps since the
  // start.
  std::string text(const engine::StepMetrics& metrics, std::int64_t steps);

 private:
  double seconds_ = 0;
  std::int64_t counted_ = 0;
  std::optional<double> validation_;
};

}  // namespace trainyard::tools
