// Compares dtypes of plans and machines.
#include "libtrain/plan/time_notes.h"

#include <fmt/format.h>

namespace trainyard::plan {

std::string no_bf16(const Plan& plan, const Machine& machine) {
  // Products that take bf16 take f16 at the same rate.
  if (plan.dtype != base::DType::bf16 || machine.dtype != base::DType::f16) return {};
  return fmt::format("{}: its products take f16 and no bf16, so times are those of f16", machine.name);
}

}  // namespace trainyard::plan
