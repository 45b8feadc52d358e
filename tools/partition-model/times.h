// What --profile and --offload-dir say beside the plan: how long it takes, and what each folder gets.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/plan/plan.h"
#include "tools/partition-model/options.h"

#include <string>

namespace trainyard::tools {

struct Times {
  std::string text;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
};
// The plan is predicted. UsageError, InputError.
Times times_of(const plan::Plan& plan, const Options& options);

}  // namespace trainyard::tools
