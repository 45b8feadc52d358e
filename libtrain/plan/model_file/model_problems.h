// What is wrong with a model.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

std::vector<std::string> problems(const ModelConfig&);  // everything wrong, each with a hint; empty: legal

}  // namespace trainyard::plan
