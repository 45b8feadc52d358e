// What a reader of a plan's step time must know: in what the plan differs from the machine.
#pragma once

#include "libtrain/plan/machine/machine.h"
#include "libtrain/plan/plan.h"

#include <string>

namespace trainyard::plan {

// Where the plan is in bf16 and products of the machine take only f16: "dgx2-v100: its products take f16 and no bf16,
// so times are those of f16". Empty else.
std::string no_bf16(const Plan& plan, const Machine& machine);

}  // namespace trainyard::plan
