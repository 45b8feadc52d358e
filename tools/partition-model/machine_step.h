// --machine: what it decides of a plan, and the predicted time of a step.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/plan/step_time.h"
#include "tools/common/config_flags.h"
#include "tools/partition-model/options.h"

#include <optional>
#include <string>

namespace trainyard::tools {

// The machine of the flags, if any. Sets what the flags leave open: the ranks (options.ranks), the device, the working
// dtype and the memory of a device. UsageError where flags contradict one another.
std::optional<plan::Machine> machine_of(Options& options, plan::Plan& plan, const ConfigFlags& flags, bool ranks_given);

// A table of what a step takes, its interval, tokens and FLOPs a second.
std::string step_time_text(const plan::Plan& plan, const plan::StepInterval& interval, const plan::Machine& machine);

// --until: "tokens=1e12" or "steps=1000" as a number of steps of the plan; 0: not asked. UsageError.
double steps_until(const std::string& until, const plan::Plan& plan);
// "200 h, 25,600 node-hours, 36.9 GWh".
std::string until_text(double steps, double step_seconds, const plan::Plan& plan, const plan::Machine& machine);

}  // namespace trainyard::tools
