// Whether the predictions in a plan follow from its decisions.
#pragma once

#include "libtrain/plan/plan.h"

#include <string>

namespace trainyard::plan {

// Predicts again and lists the differences: "parameters is 1, this build computes 124439808; ...". Empty if all is
// equal. Else the plan was edited, or was made by a build with other formulas. The plan must be one that plan_from_json
// accepted.
std::string other_prediction(const Plan& plan);
// A sentence about such differences, one line, for a program that continues with the plan in file `path`; empty if all
// is equal.
std::string edited_text(const Plan& plan, const std::string& path);

}  // namespace trainyard::plan
