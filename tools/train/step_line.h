// StepLine: the progress line of a step, within 80 columns.
#pragma once

#include "libtrain/engine/metrics.h"
#include "tools/common/step_pace.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::tools {

class StepLine {
 public:
  // The text of step_text, with the latest validation, and speed and time left from StepPace. Must be called for every
  // step since the start.
  std::string text(const engine::StepMetrics& metrics, std::int64_t steps);

 private:
  StepPace pace_;
  std::optional<double> validation_;
};

}  // namespace trainyard::tools
