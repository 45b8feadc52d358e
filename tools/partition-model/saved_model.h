// The model of a checkpoint or of a run, from the manifest alone.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <optional>
#include <string>

namespace trainyard::tools {

// Nothing where the path is not the folder of a checkpoint, or of a run, whose newest checkpoint counts. InputError for
// a run without one, and for a damaged manifest.
std::optional<plan::ModelConfig> saved_model(const std::string& path);

}  // namespace trainyard::tools
