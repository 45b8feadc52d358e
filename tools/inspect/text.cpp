// Tables and numbers as text.
#include "tools/inspect/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace trainyard::inspect {

std::string human_count(std::int64_t count) {
  auto digits = std::to_string(std::llabs(count));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), 1, ',');
  return count < 0 ? "-" + digits : digits;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("{}", fmt::join(shape, " x ")); }

std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value); }

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  std::vector<std::string> names;
  for (const auto& h : header) {
    right.push_back(h.starts_with('>'));
    names.push_back(right.back() ? h.substr(1) : h);
    widths.push_back(names.back().size());
  }
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
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

void collect(const nlohmann::json& json, const std::string& prefix, std::vector<std::pair<std::string, std::string>>& out) {
  if (json.is_object() && !json.empty()) {
    for (const auto& [key, value] : json.items()) collect(value, prefix.empty() ? key : prefix + "." + key, out);
    return;
  }
  out.emplace_back(prefix, json.is_string() ? json.get<std::string>() : json.dump());
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
