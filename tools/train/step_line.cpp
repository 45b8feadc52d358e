// Keeps what lines before have said.
#include "tools/train/step_line.h"

#include "tools/common/step_text.h"

namespace trainyard::tools {

std::string StepLine::text(const engine::StepMetrics& m, std::int64_t steps) {
  seconds_ += m.step_seconds + m.validation_seconds;
  ++counted_;
  if (m.validation_loss) validation_ = m.validation_loss;
  std::optional<StepNow::Experts> experts;
  if (m.gates) experts = {m.gates->fullest, m.gates->dropped_share};
  return step_text({m.step, steps, m.loss, validation_, m.tokens_per_second,
                    seconds_ / static_cast<double>(counted_) * static_cast<double>(steps - m.step), experts});
}

}  // namespace trainyard::tools
