// Formats numbers and leaves of JSON.
#include "tools/inspect/text.h"

#include "libtrain/base/json.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace trainyard::inspect {

nlohmann::json number_or_null(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); }

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("{}", fmt::join(shape, " x ")); }

std::string size_phrase(std::int64_t bytes, base::Sizes sizes) {
  return base::size_text(bytes, sizes) + (sizes == base::Sizes::exact ? " bytes" : "");
}

nlohmann::json for_people(const nlohmann::json& metrics, base::Sizes sizes) {
  if (sizes == base::Sizes::exact) return metrics;
  auto out = metrics;
  if (const auto experts = out.find("experts"); experts != out.end() && experts->is_object())
    for (auto& [key, value] : experts->items()) {
      if (value.is_number()) value = base::number_text(value);
      if (key == "layers") value = "--experts shows them";
    }
  for (const auto& [key, value] : metrics.items()) {
    if (!value.is_number()) continue;
    const std::string_view name = key;
    const bool whole =
        value.is_number_unsigned()
            ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
            : value.is_number_integer();
    if (name.ends_with("_bytes") && whole) out[key] = base::size_text(value.get<std::int64_t>());
    else if (name == "model_flops_per_second") out[key] = base::rate_text(value, "FLOP/s");
    else if (name == "tokens_per_second") out[key] = base::count_rate_text(value, "tokens/s");
    else if (name.ends_with("_seconds")) out[key] = base::duration_text(value);
    else if (whole) out[key] = base::count_text(value);
    else out[key] = base::number_text(value);
  }
  return out;
}

namespace {

void collect(const nlohmann::json& json, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& out) {
  if (json.is_object() && !json.empty()) {
    for (const auto& [key, value] : json.items()) collect(value, prefix.empty() ? key : prefix + "." + key, out);
    return;
  }
  out.emplace_back(base::one_line(prefix),
                   base::one_line(base::shortened(json.is_string() ? json.get<std::string>() : json.dump())));
}

}  // namespace

std::string leaves(const nlohmann::json& json, int indent) {
  std::vector<std::pair<std::string, std::string>> lines;
  collect(json, "", lines);
  std::size_t width = 0;
  for (const auto& [key, value] : lines) width = std::max(width, key.size());
  std::string out;
  for (const auto& [key, value] : lines)
    if (!key.empty()) out += fmt::format("{:{}}{:<{}}  {}\n", "", indent, key, width, value);
  return out;
}

}  // namespace trainyard::inspect
