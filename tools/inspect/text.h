// Small helpers for printing: numbers and leaves of JSON.
#pragma once

#include "libtrain/base/number_text.h"
#include "tools/common/table.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::inspect {

nlohmann::json number_or_null(double x);  // null if not finite, because JSON has no number for it
std::string shape_text(const std::vector<std::int64_t>& shape);  // "768 x 3072"
inline std::string human_count(std::int64_t count) { return base::count_text(count); }
using base::number_text;
using tools::table;

std::string percent(double share);  // "12.5 %"

// A size inside a sentence: "10.6 MB" or "10630144 bytes".
std::string size_phrase(std::int64_t bytes, base::Sizes sizes);
// A line of metrics with values formatted for people by the words of its keys: sizes, rates, seconds, losses. With
// exact sizes nothing is rounded.
nlohmann::json for_people(const nlohmann::json& metrics, base::Sizes sizes);

// One "key  value" line for each leaf, with nested keys joined by dots and `indent` spaces in front.
std::string leaves(const nlohmann::json& json, int indent);

}  // namespace trainyard::inspect
