// StepLine: what progress says about a step, within 80 columns.
#pragma once

#include "libtrain/engine/metrics.h"
#include "tools/common/step_pace.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::tools {

class StepLine {
 public:
  // As step_text says it, with the last validation there was, and speed and time left by StepPace. Wants every step
  // since the start.
  std::string text(const engine::StepMetrics& metrics, std::int64_t steps);

 private:
  StepPace pace_;
  std::optional<double> validation_;
};

}  // namespace trainyard::tools
