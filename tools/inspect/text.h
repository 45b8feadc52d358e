// Small helpers for printing: tables and numbers.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::inspect {

std::string human_count(std::int64_t count);            // "124,439,808"
std::string shape_text(const std::vector<std::int64_t>& shape);   // "768 x 3072"
std::string number_text(double value);                  // six digits; "nan" as such

// Columns as wide as their widest cell, two spaces between; columns whose header starts with '>' are flush right (the sign is dropped).
std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

// One "key  value" line for each leaf, nested keys joined by dots; `indent` spaces before.
std::string leaves(const nlohmann::json& json, int indent);

}  // namespace trainyard::inspect
