// Draws tables.
#include "tools/common/table.h"

#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::tools {

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

}  // namespace trainyard::tools
