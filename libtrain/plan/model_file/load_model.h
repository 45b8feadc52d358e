// Reads a model by its name or from its file.
#pragma once

#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/model_config.h"

#include <string>

namespace trainyard::plan {

// Loads a preset by name or a TOML file by path (plan/model_file/model_fields.h). Lanes are 0 if neither sets them. The
// file of a layout, whose path is relative to the model's file, is read into the model. Without a reader such a model
// is refused. UsageError, InputError.
ModelConfig load_model(const std::string& preset_or_toml, LayoutReader read_layout = nullptr);

}  // namespace trainyard::plan
