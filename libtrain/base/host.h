// The name of the machine that this process runs on.
#pragma once

#include <string>

namespace trainyard::base {

std::string host_name();   // as the system has it; "?" where it has none

}  // namespace trainyard::base
