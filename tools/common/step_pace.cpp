// Averages over the last steps.
#include "tools/common/step_pace.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard::tools {

namespace {

double quotient(double a, double b) { return b > 0 ? a / b : std::numeric_limits<double>::quiet_NaN(); }

}  // namespace

void StepPace::add(const StepTimes& step) {
  if (!std::isfinite(step.seconds) || step.seconds < 0) return;
  last_.push_back(step);
  if (last_.size() > window) last_.pop_front();
  ++all_;
  if (std::isfinite(step.validation_seconds)) validation_seconds_ += std::max(0.0, step.validation_seconds);
}

double StepPace::step_seconds() const {
  double sum = 0;
  for (const auto& s : last_) sum += s.seconds;
  return quotient(sum, static_cast<double>(last_.size()));
}

double StepPace::tokens_per_second() const {
  double tokens = 0, seconds = 0;
  for (const auto& s : last_)
    if (std::isfinite(s.tokens_per_second)) tokens += s.tokens_per_second * s.seconds, seconds += s.seconds;
  return quotient(tokens, seconds);
}

double StepPace::seconds_left(std::int64_t steps) const {
  const double validation = all_ > 0 ? validation_seconds_ / static_cast<double>(all_) : 0;
  return (step_seconds() + validation) * static_cast<double>(std::max<std::int64_t>(0, steps));
}

}  // namespace trainyard::tools
