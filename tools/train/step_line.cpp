// Keeps values of earlier steps.
#include "tools/train/step_line.h"

#include "tools/common/step_text.h"

namespace trainyard::tools {

std::string StepLine::text(const engine::StepMetrics& m, std::int64_t steps) {
  pace_.add({m.step_seconds, m.validation_seconds, m.tokens_per_second});
  if (m.validation_loss) validation_ = m.validation_loss;
  std::optional<StepNow::Experts> experts;
  if (m.gates) experts = {m.gates->fullest, m.gates->dropped_share};
  std::optional<double> disk_wait;
  if (m.disk_wait_seconds && m.step_seconds > 0) disk_wait = *m.disk_wait_seconds / m.step_seconds;
  return step_text({m.step, steps, m.loss, validation_, pace_.tokens_per_second(), pace_.seconds_left(steps - m.step),
                    experts, disk_wait});
}

}  // namespace trainyard::tools
