// Checks the adapters of a model.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// What is wrong with AdapterConfig, as model_problems.h; empty for a model without adapters.
std::vector<std::string> adapter_problems(const ModelConfig& model);

}  // namespace trainyard::plan
