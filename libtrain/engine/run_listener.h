// RunListener: what a run tells its caller while it goes on.
#pragma once

#include "libtrain/engine/metrics.h"

#include <cstdint>
#include <functional>
#include <string>

namespace trainyard::engine {

// Callbacks for what the caller shows. Called on rank 0 only.
struct RunListener {
  std::function<void(const StepMetrics& metrics, std::int64_t steps)> on_step;
  std::function<void(const std::string& line)> on_note;
  std::function<void()> on_begin = {};  // all checks of the start are over; the first step follows
};

}  // namespace trainyard::engine
