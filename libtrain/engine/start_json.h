// What rank 0 decides about a start, as JSON: the form in which it reaches the other ranks. Paths keep bytes that are
// no UTF-8 (base::text_of_path).
#pragma once

#include "libtrain/engine/auto_plan.h"
#include "libtrain/engine/restore.h"

#include <nlohmann/json.hpp>

namespace trainyard::engine {

void to_json(nlohmann::json& json, const LanesOfRun& lanes);
void from_json(const nlohmann::json& json, LanesOfRun& lanes);
void to_json(nlohmann::json& json, const AutoLayout& layout);
void from_json(const nlohmann::json& json, AutoLayout& layout);
void to_json(nlohmann::json& json, const Start& start);
void from_json(const nlohmann::json& json, Start& start);

}  // namespace trainyard::engine
