// Remedies: what makes a plan smaller that does not fit its memory.
#pragma once

#include "libtrain/plan/plan.h"

#include <string>

namespace trainyard::plan {

// With what each would need, to train or to evaluate: what fits alone; else what fits together, other tensor ranks and
// stages of the same ranks among it; else, as the last, another model or device, and what comes nearer. A hundredth
// less is no remedy. An evaluation is told nothing that would change its numbers but a micro-batch of 1. The plan is
// predicted and has no decision_problems. Takes a second or so, where models are deep and ranks many.
std::string remedies(const Plan& plan, Pass pass = Pass::train);

}  // namespace trainyard::plan
