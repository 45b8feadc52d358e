// Keeps values of earlier steps.
#include "tools/train/step_line.h"

#include "tools/common/step_text.h"

namespace trainyard::tools {

std::string StepLine::text(const engine::StepMetrics& m, std::int64_t steps) {
  pace_.add({m.step_seconds, m.validation_seconds, m.tokens_per_second});
  if (m.validation_loss) validation_ = m.validation_loss;
  std::optional<StepNow::Experts> experts;
  if (m.gates) experts = {m.gates->fullest, m.gates->dropped_share};
  return step_text(
      {m.step, steps, m.loss, validation_, pace_.tokens_per_second(), pace_.seconds_left(steps - m.step), experts});
}

}  // namespace trainyard::tools
