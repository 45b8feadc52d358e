// Draws a curve with one mark for each column.
#include "tools/common/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace trainyard::tools {

ChartOptions::Glyphs terminal_glyphs() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string text = value;
    return text.find("UTF-8") != std::string::npos || text.find("utf8") != std::string::npos ? ChartOptions::Glyphs::blocks : ChartOptions::Glyphs::ascii;
  }
  return ChartOptions::Glyphs::ascii;
}

std::string draw_chart(const std::vector<double>& x, const std::vector<double>& y, const ChartOptions& o) {
  double x0 = std::numeric_limits<double>::infinity(), x1 = -x0, y0 = x0, y1 = -x0;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!std::isfinite(y[i])) continue;
    x0 = std::min(x0, x[i]), x1 = std::max(x1, x[i]), y0 = std::min(y0, y[i]), y1 = std::max(y1, y[i]);
  }
  if (!(x0 <= x1)) return {};
  const double dx = x1 > x0 ? x1 - x0 : 1, dy = y1 > y0 ? y1 - y0 : 1;
  const auto columns = static_cast<std::size_t>(o.width), rows = static_cast<std::size_t>(o.height);
  std::vector<double> sum(columns), count(columns);
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!std::isfinite(y[i])) continue;
    const auto c = std::min(columns - 1, static_cast<std::size_t>((x[i] - x0) / dx * static_cast<double>(columns)));
    sum[c] += y[i], count[c] += 1;
  }
  const std::string mark = o.glyphs == ChartOptions::Glyphs::blocks ? "\u2022" : "*", bar = o.glyphs == ChartOptions::Glyphs::blocks ? "\u2502" : "|";
  std::string out = fmt::format("{:>10}\n", o.y_label);
  for (std::size_t r = 0; r < rows; ++r) {
    const double level = y1 - dy * static_cast<double>(r) / static_cast<double>(rows - 1);
    out += r % 3 == 0 || r + 1 == rows ? fmt::format("{:>10.4g} {}", level, bar) : fmt::format("{:>10} {}", "", bar);
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const auto at = count[c] > 0 ? static_cast<std::size_t>(std::lround((y1 - sum[c] / count[c]) / dy * static_cast<double>(rows - 1))) : rows;
      line += at == r ? mark : " ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out + fmt::format("{:>11}{:<{}}{:>{}}\n", "", fmt::format(" {:g}", x0), o.width / 2, fmt::format("{:g} {}", x1, o.x_label), o.width - o.width / 2);
}

}  // namespace trainyard::tools
