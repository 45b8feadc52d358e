// The table of a plan, for people.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/plan/plan.h"

#include <string>

namespace trainyard::tools {

std::string plan_table(const plan::Plan& plan, base::Sizes sizes);

}  // namespace trainyard::tools
