// What is wrong with a model's attention settings.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// Each message says what would be right. Problems are keys that no layout of the model reads, sizes that do not fit
// together, and lists that would be too long. A layout has at most 8192 blocks a side, and 2^24 blocks in all heads of
// a layer.
std::vector<std::string> attention_problems(const ModelConfig& model);

}  // namespace trainyard::plan
