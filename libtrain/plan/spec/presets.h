// Presets: models of published shapes.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::plan {

std::vector<std::string> preset_names();
ModelConfig preset(std::string_view name);  // has 1 lane; UsageError names the nearest preset

}  // namespace trainyard::plan
