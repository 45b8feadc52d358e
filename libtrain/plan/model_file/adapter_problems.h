// Checks the adapters of a model.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// What is wrong with AdapterConfig, as model_problems.h; empty for a model without adapters.
std::vector<std::string> adapter_problems(const ModelConfig& model);
// Whether a model has such a layer, and it may have an adapter.
bool can_have_adapter(const ModelConfig& model, const AdapterTarget& target);

}  // namespace trainyard::plan
