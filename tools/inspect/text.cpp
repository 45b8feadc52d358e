// Tables and numbers as text.
#include "tools/inspect/text.h"

#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

namespace trainyard::inspect {

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("{}", fmt::join(shape, " x ")); }

std::string size_phrase(std::int64_t bytes, base::Sizes sizes) {
  return base::size_text(bytes, sizes) + (sizes == base::Sizes::exact ? " bytes" : "");
}

nlohmann::json for_people(const nlohmann::json& metrics, base::Sizes sizes) {
  if (sizes == base::Sizes::exact) return metrics;
  auto out = metrics;
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

std::string table(const std::vector<std::string>& header, std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  std::vector<std::string> names;
  for (const auto& h : header) {
    right.push_back(h.starts_with('>'));
    names.push_back(right.back() ? h.substr(1) : h);
    widths.push_back(names.back().size());
  }
  for (auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      row[c] = base::one_line(row[c]);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) text += "  ";
      text += right[c] ? fmt::format("{:>{}}", cells[c], widths[c]) : fmt::format("{:<{}}", cells[c], widths[c]);
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text + "\n";
  };
  line(names);
  for (const auto& row : rows) line(row);
  return out;
}

namespace {

void collect(const nlohmann::json& json, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& out) {
  if (json.is_object() && !json.empty()) {
    for (const auto& [key, value] : json.items()) collect(value, prefix.empty() ? key : prefix + "." + key, out);
    return;
  }
  out.emplace_back(base::one_line(prefix), base::one_line(json.is_string() ? json.get<std::string>() : json.dump()));
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
