// The table of a plan for people.
#pragma once

#include "libtrain/plan/plan.h"

#include <string>

namespace trainyard::tools {

std::string plan_table(const plan::Plan& plan);

}  // namespace trainyard::tools
