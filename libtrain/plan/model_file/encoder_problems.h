// Checks what an encoder-decoder model says of its two parts.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// What is wrong, a sentence each; empty where nothing is.
std::vector<std::string> encoder_problems(const ModelConfig& model);

}  // namespace trainyard::plan
