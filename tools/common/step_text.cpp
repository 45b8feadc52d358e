// Formats the line about a step.
#include "tools/common/step_text.h"

#include "libtrain/base/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::tools {

namespace {

constexpr std::size_t widest = 79 - 7;  // "train: " precedes the text

}  // namespace

std::string left_text(double seconds) {
  if (seconds < 10) return fmt::format("{:.0f} s", seconds);
  if (!(seconds >= 36000)) return base::duration_text(seconds);
  return seconds < 360000 ? fmt::format("{:.0f} h", seconds / 3600) : fmt::format("{:.0f} days", seconds / 86400);
}

std::string loss_text(double loss) {
  return loss >= 0.1 && loss < 1000 ? fmt::format("{:.3f}", loss) : base::number_text(loss);
}

std::string step_text(const StepNow& now) {
  const auto line = [&](const std::string& shares, const std::string& rate) {
    return fmt::format("step {}{}  {}{}{}{}{}", now.step, now.steps > 0 ? fmt::format("/{}", now.steps) : "",
                       now.loss ? "loss " + loss_text(*now.loss) : "no loss",
                       now.validation ? fmt::format("  val {}", loss_text(*now.validation)) : "", shares, rate,
                       now.steps > 0 ? fmt::format("  {} left", left_text(now.seconds_left)) : "");
  };
  const auto rate = fmt::format("  {}", base::count_rate_text(now.tokens_per_second, "tokens/s"));
  std::string load, drop;
  if (now.experts) {
    load = fmt::format("  load {:.1f}", now.experts->fullest);
    if (const double percent = std::round(100 * now.experts->dropped_share); percent > 0)
      drop = fmt::format("  drop {:.0f} %", percent);
  }
  const auto disk = now.disk_wait_share ? fmt::format("  disk {:.0f} %", 100 * *now.disk_wait_share) : std::string();
  for (const auto& text : {line(load + drop + disk, rate), line(load + disk, rate), line(disk, rate), line("", rate)})
    if (text.size() <= widest) return text;
  return line("", "");
}

}  // namespace trainyard::tools
