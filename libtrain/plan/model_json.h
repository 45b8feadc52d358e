// A model as JSON: what plans, checkpoints and the identity of a run hold. Keys with underscores, numbers as numbers,
// switches as true and false.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/plan/model_config.h"

#include <string>

namespace trainyard::plan {

nlohmann::ordered_json model_to_json(const ModelConfig& model);

// Reads these and what older programs wrote: every value as text, keys with hyphens. InputError, beginning with
// `where`, for an unknown key (with the nearest), one that is missing, or a value out of range; `way_out` is its hint
// where there is no better.
ModelConfig model_from_json(const nlohmann::ordered_json& json, const std::string& where, const std::string& way_out);

// The same model in today's form, so that old and new compare equal; what is not understood stays as it is.
nlohmann::json current_form(const nlohmann::json& model);

}  // namespace trainyard::plan
