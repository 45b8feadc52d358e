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

// --until "tokens=1e12,validate-every=1000,validation-sequences=64,save-every=500".
struct Until {
  double steps = 0;                                                      // of the plan; 0: not asked
  double validate_every = 0, validation_sequences = 64, save_every = 0;  // steps; 0: never
};
Until until_of(const std::string& text, const plan::Plan& plan);  // UsageError
// "476,838 steps: 2,026 h, 8,105 node-hours, 93.4 GJ of the devices; validations 1.2 % of it, saves 0.3 %"
std::string until_text(const Until& until, double step_seconds, const plan::Plan& plan, const plan::Machine& machine,
                       const plan::Execution& execution);

}  // namespace trainyard::tools
