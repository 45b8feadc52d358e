// The words of a step.
#include "tools/train/step_line.h"

#include "libtrain/base/number_text.h"

#include <fmt/format.h>

namespace trainyard::tools {

namespace {

constexpr std::size_t widest = 79 - 7;  // "train: " comes before

// Of long times the minutes are noise.
std::string left_text(double seconds) {
  if (seconds < 10) return fmt::format("{:.0f} s", seconds);
  if (!(seconds >= 36000)) return base::duration_text(seconds);
  return seconds < 360000 ? fmt::format("{:.0f} h", seconds / 3600) : fmt::format("{:.0f} days", seconds / 86400);
}

// Lines under one another have the same digits.
std::string loss_text(double loss) {
  return loss >= 0.1 && loss < 1000 ? fmt::format("{:.3f}", loss) : base::number_text(loss);
}

}  // namespace

std::string StepLine::text(const engine::StepMetrics& m, std::int64_t steps) {
  seconds_ += m.step_seconds;
  ++counted_;
  if (m.validation_loss) validation_ = m.validation_loss;
  const auto left = left_text(seconds_ / static_cast<double>(counted_) * static_cast<double>(steps - m.step));
  const auto line = [&](const std::string& rate) {
    return fmt::format("step {}/{}  loss {}{}{}  {} left", m.step, steps, loss_text(m.loss),
                       validation_ ? fmt::format("  val {}", loss_text(*validation_)) : "", rate, left);
  };
  const auto text = line(fmt::format("  {}", base::count_rate_text(m.tokens_per_second, "tokens/s")));
  return text.size() > widest ? line("") : text;
}

}  // namespace trainyard::tools
