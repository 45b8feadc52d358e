// Lines of metrics of a made-up run.
#pragma once

#include "libtrain/engine/metrics.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace lines {

// Loss 5 / step; a validation every fourth step; a line each second after 2026-01-31T23:59:00Z.
inline trainyard::engine::StepMetrics of_step(std::int64_t step, std::int64_t steps = 20) {
  trainyard::engine::StepMetrics m;
  m.step = step, m.steps = steps, m.loss = 5.0 / static_cast<double>(step), m.gradient_norm = 0.5;
  m.learning_rate = 1e-3, m.tokens_seen = 1000 * step, m.tokens_per_second = 500, m.step_seconds = 2;
  if (step % 4 == 0) m.validation_loss = 5.5 / static_cast<double>(step);
  m.time = fmt::format("2026-01-31T23:59:{:02}.250Z", step % 60), m.host = "n1";
  return m;
}
inline std::string text(std::int64_t from, std::int64_t to, std::int64_t steps = 20) {
  std::string out;
  for (auto step = from; step <= to; ++step) out += trainyard::engine::to_json_line(of_step(step, steps)) + "\n";
  return out;
}
inline void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

}  // namespace lines
