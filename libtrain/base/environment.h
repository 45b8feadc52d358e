// Environment variables that are named TRAINYARD_: settings of a run, and a few others.
#pragma once

#include <string>
#include <vector>

namespace trainyard::base {

std::string variable_of(const std::string& setting);  // "global-batch": TRAINYARD_GLOBAL_BATCH
// The variables of this process that begin with TRAINYARD_ and are neither one of `settings` nor one that another part
// reads.
std::vector<std::string> unknown_variables(const std::vector<std::string>& settings);
// Of those that another part of a run reads, those that are set.
std::vector<std::string> other_variables_of_a_run();
// What TRAINYARD_SHARED_MEMORY says: on, as if unsaid or empty, or off; a UsageError of anything else.
bool shared_memory_wanted();
// What TRAINYARD_HOPPER says: whether attention takes the kernels for Hopper; off, as if unsaid or empty, or on.
bool hopper_wanted();
std::string variable_hint(const std::string& variable,
                          const std::vector<std::string>& settings);  // the nearest that exists

}  // namespace trainyard::base
