// Drawing curves with braille dots (two by four a character) or stars.
#include "tools/inspect/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard::inspect {

namespace {

std::string braille(unsigned dots) {  // U+2800 + dots, in UTF-8
  return {static_cast<char>(0xE2), static_cast<char>(0xA0 | (dots >> 6)), static_cast<char>(0x80 | (dots & 0x3F))};
}

// Bit of the dot at (x, y) inside a braille character.
constexpr unsigned dot_bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

// Means of the points in each of `wide` columns; NaN where there are none, then filled by straight lines between
// neighbours.
std::vector<double> columns_of(const std::vector<Point>& points, double x0, double x1, int wide) {
  std::vector<double> sum(static_cast<std::size_t>(wide), 0), n(static_cast<std::size_t>(wide), 0);
  for (const auto& p : points) {
    const auto c = static_cast<std::size_t>(x1 > x0 ? std::lround((p.x - x0) / (x1 - x0) * (wide - 1)) : 0);
    sum[c] += p.y;
    n[c] += 1;
  }
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = n[c] > 0 ? sum[c] / n[c] : NAN;
  for (std::size_t c = 0, last = 0; c < sum.size(); ++c) {
    if (std::isnan(sum[c])) continue;
    for (std::size_t k = last + 1; k < c; ++k)
      if (!std::isnan(sum[last]))
        sum[k] = sum[last] + (sum[c] - sum[last]) * static_cast<double>(k - last) / static_cast<double>(c - last);
    last = c;
  }
  return sum;
}

}  // namespace

std::string draw(const std::vector<Point>& given, int columns, int rows, tools::Glyphs glyphs) {
  std::vector<Point> points;
  for (const auto& p : given)
    if (std::isfinite(p.x) && std::abs(p.y) < 1e290) points.push_back(p);  // sums and differences stay finite
  if (points.empty()) return {};
  const auto [left, right] =
      std::minmax_element(points.begin(), points.end(), [](auto& a, auto& b) { return a.x < b.x; });
  const double x0 = left->x, x1 = right->x;
  const int label = 10, plot = std::max(10, columns - label - 1), high = std::max(3, rows - 1);
  const int across = glyphs == tools::Glyphs::unicode ? 2 : 1, down = glyphs == tools::Glyphs::unicode ? 4 : 1;
  const auto ys = columns_of(points, x0, x1, plot * across);
  double y0 = INFINITY, y1 = -INFINITY;
  for (double y : ys)
    if (!std::isnan(y)) y0 = std::min(y0, y), y1 = std::max(y1, y);

  std::vector<unsigned> cells(static_cast<std::size_t>(plot * high), 0);
  const int lines = high * down;
  const auto line_of = [&](double y) {
    return y1 > y0 ? static_cast<int>(std::lround((y1 - y) / (y1 - y0) * (lines - 1))) : lines / 2;
  };
  int before = -1;
  for (int c = 0; c < plot * across; ++c) {
    const double y = ys[static_cast<std::size_t>(c)];
    if (std::isnan(y)) {
      before = -1;
      continue;
    }
    const int line = line_of(y);
    const int from = before < 0 ? line : std::min(line, before < line ? before + 1 : before - 1),
              to = before < 0 ? line : std::max(line, before < line ? before + 1 : before - 1);
    for (int l = before == line ? line : from; l <= (before == line ? line : to); ++l)
      cells[static_cast<std::size_t>(l / down * plot + c / across)] |=
          glyphs == tools::Glyphs::unicode ? dot_bits[l % 4][c % 2] : 1u;
    before = line;
  }

  std::string out;
  for (int r = 0; r < high; ++r) {
    const bool labelled = r == 0 || r == high - 1 || r == high / 2;
    const double y = y1 - (y1 - y0) * r / (high - 1);
    out += labelled ? fmt::format("{:>9.4g} ", y) : fmt::format("{:10}", "");
    out += glyphs == tools::Glyphs::unicode ? "\u2502" : "|";
    std::string line;
    std::size_t keep = 0;
    for (int c = 0; c < plot; ++c) {
      const auto dots = cells[static_cast<std::size_t>(r * plot + c)];
      line += dots == 0 ? " " : glyphs == tools::Glyphs::unicode ? braille(dots) : "*";
      if (dots != 0) keep = line.size();
    }
    out += line.substr(0, keep) + "\n";
  }
  const auto first = fmt::format("step {:g}", x0), last = fmt::format("{:g}", x1);
  const int gap = std::max(1, plot - static_cast<int>(first.size() + last.size()));
  return out + fmt::format("{:11}{}{:{}}{}\n", "", first, "", gap, last);
}

}  // namespace trainyard::inspect
