// Checks how the angles of rotary positions are scaled.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

std::vector<std::string> rotary_problems(const ModelConfig& model);

}  // namespace trainyard::plan
