// A model as JSON: what plans, checkpoints and the identity of a run hold. Keys with underscores, numbers as numbers,
// switches as true and false.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/plan/spec/model_config.h"

#include <string>

namespace trainyard::plan {

nlohmann::ordered_json model_to_json(const ModelConfig& model);

// The keys of a model that are known here, without those that a later program of this major version may have added.
nlohmann::ordered_json known_model_keys(const nlohmann::json& model);

// Reads this form and the form of older programs: every value as text, keys with hyphens. InputError, beginning with
// `where`, for an unknown key (with the nearest), a missing key, or a value out of range. `way_out` is the hint if
// there is no better one.
ModelConfig model_from_json(const nlohmann::ordered_json& json, const std::string& where, const std::string& way_out);

// The same model in today's form, so that old and new compare equal. What is not understood stays unchanged.
nlohmann::json current_form(const nlohmann::json& model);

}  // namespace trainyard::plan
