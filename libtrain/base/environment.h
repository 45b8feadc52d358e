// Environment variables that begin with TRAINYARD_: settings of a run, and a few others.
#pragma once

#include <string>
#include <vector>

namespace trainyard::base {

std::string variable_of(const std::string& setting);  // "global-batch" gives TRAINYARD_GLOBAL_BATCH
// Variables of this process that begin with TRAINYARD_ and that no code reads: neither one of `settings` nor another
// known variable.
std::vector<std::string> unknown_variables(const std::vector<std::string>& settings);
// Those variables that are set and that a run reads besides its settings.
std::vector<std::string> other_variables_of_a_run();
// The value of TRAINYARD_SHARED_MEMORY: on (also if unset or empty) or off. UsageError for anything else.
bool shared_memory_wanted();
// Whether attention uses the kernels for Hopper: the value of TRAINYARD_HOPPER, off (also if unset or empty) or on.
// UsageError for anything else.
bool hopper_wanted();
std::string variable_hint(const std::string& variable,
                          const std::vector<std::string>& settings);  // names the nearest known variable

}  // namespace trainyard::base
