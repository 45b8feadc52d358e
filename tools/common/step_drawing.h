// The picture of a plan's step on a machine: its passes over time, the memory of its stages, and which ranks a node
// has.
#pragma once

#include "libtrain/plan/step_time.h"

#include <string>

namespace trainyard::tools {

// Passes of more parts and micro-batches are not drawn.
inline constexpr std::int64_t most_simulated_passes = 2'000'000;

// `run` and `time` are what a plan::StepTimer of the machine says of the plan, whose stages are set. The passes are
// drawn from the beginning of the step until there are some 2,000. Of more than 64 stages or 32 nodes the first are
// drawn.
std::string step_drawing(const plan::Plan& plan, const plan::Simulated& run, const plan::StepTime& time,
                         const plan::Machine& machine);

}  // namespace trainyard::tools
