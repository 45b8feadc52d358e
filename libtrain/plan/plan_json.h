// Plans as JSON, "trainyard.plan/1".
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/plan/plan.h"

#include <string>

namespace trainyard::plan {

inline constexpr const char* plan_format = "trainyard.plan/1";

nlohmann::ordered_json json_of(const Plan& plan);
std::string to_json(const Plan& plan);  // two spaces, one newline at the end
// Throws InputError naming `where`: truncated or damaged text, another format, a missing key, a wrong type, an unknown
// key (with the nearest), decisions that have problems (plan/decision_problems.h).
Plan plan_from_json(const std::string& text, const std::string& where);

}  // namespace trainyard::plan
