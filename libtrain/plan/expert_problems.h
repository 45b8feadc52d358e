// What is wrong with the experts of a model.
#pragma once

#include "libtrain/plan/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// Each with what would work. The fields of the model are in their ranges.
std::vector<std::string> expert_problems(const ModelConfig& model);

}  // namespace trainyard::plan
