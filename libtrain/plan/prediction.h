// Whether what a plan predicts follows from what it decides.
#pragma once

#include "libtrain/plan/plan.h"

#include <string>

namespace trainyard::plan {

// Predicts again: what the plan says otherwise, "parameters is 1, this build computes 124439808; ..."; empty where all
// is equal. Otherwise it was edited, or made by a build with other formulas. The plan is one that plan_from_json
// accepted.
std::string other_prediction(const Plan& plan);
// A sentence about that for who goes on with the plan in the file `path`, one line; empty where all is equal.
std::string edited_text(const Plan& plan, const std::string& path);

}  // namespace trainyard::plan
