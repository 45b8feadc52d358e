// Everything that is wrong with a plan, at once, each with what to try. One list serves partition-model, which makes
// plans, and train, which follows them.
#pragma once

#include "libtrain/plan/decision_problems.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace trainyard::plan {

// Compares arenas and reserve with device_memory and says what each remedy would need. Empty if the plan fits or no
// limit is stated. `limit` is the setting that states it. Needs predict().
std::vector<Problem> memory_problems(const Plan& plan, std::string_view limit = "device-memory",
                                     Kernels kernels = Kernels::ours);
// The same for what a GPU's rank has on its host. `host_memory`: bytes, 0 for no limit.
std::vector<Problem> host_memory_problems(const Plan& plan, std::int64_t host_memory);
// Both lists, and whether the world has the plan's number of ranks. Memory comes from a fresh prediction, not from the
// plan.
std::vector<Problem> problems(const Plan& plan, int world);

}  // namespace trainyard::plan
