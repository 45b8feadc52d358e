// What is wrong with the attention of a model.
#pragma once

#include "libtrain/plan/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// Each with what would be right: keys that none of the layouts reads, sizes that do not go together, lists that would
// be too long: layouts have at most 8192 blocks a side, and 2^24 in all heads of a layer.
std::vector<std::string> attention_problems(const ModelConfig& model);

}  // namespace trainyard::plan
