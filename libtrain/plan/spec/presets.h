// Presets: models of published shapes.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::plan {

std::vector<std::string> preset_names();
// Has 1 lane and vocabulary 0: it comes from the shards. UsageError names the nearest preset.
ModelConfig preset(std::string_view name);
// Tokens in the vocabulary of the published model; 0: no such model was published.
std::int64_t published_vocabulary(std::string_view name);

}  // namespace trainyard::plan
