// Draws curves with braille dots (two by four in a character), stars, or letters.
#include "tools/inspect/curve.h"

#include "libtrain/base/number_text.h"
#include "tools/common/axis_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard::inspect {

namespace {

// Characters of the largest plot, because a terminal may report any size.
constexpr int widest = 1000, highest = 500;

std::string braille(unsigned dots) {  // U+2800 + dots, in UTF-8
  return {static_cast<char>(0xE2), static_cast<char>(0xA0 | (dots >> 6)), static_cast<char>(0x80 | (dots & 0x3F))};
}

// Bit of the dot in a line and column of a braille character: dot_bits[line][column].
constexpr unsigned dot_bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

struct Range {
  double low = INFINITY, high = -INFINITY;
  void take(double v) { low = std::min(low, v), high = std::max(high, v); }
  // Position of `v`, from 0 to places - 1; `middle` if the range has no width.
  int place(double v, int places, int middle) const {
    return high > low ? static_cast<int>(std::lround((v - low) / (high - low) * (places - 1))) : middle;
  }
};

// Means of the points in each of `wide` columns; NaN in a column without points. A joined curve fills these columns by
// straight lines between neighbours.
std::vector<double> columns_of(const Curve& curve, const Range& x, int wide) {
  std::vector<double> sum(static_cast<std::size_t>(wide), 0), n(static_cast<std::size_t>(wide), 0);
  for (const auto& p : curve.points) {
    const auto c = static_cast<std::size_t>(x.place(p.x, wide, 0));
    sum[c] += p.y;
    n[c] += 1;
  }
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = n[c] > 0 ? sum[c] / n[c] : NAN;
  if (!curve.joined) return sum;
  for (std::size_t c = 0, last = 0; c < sum.size(); ++c) {
    if (std::isnan(sum[c])) continue;
    for (std::size_t k = last + 1; k < c; ++k)
      if (!std::isnan(sum[last]))
        sum[k] = sum[last] + (sum[c] - sum[last]) * static_cast<double>(k - last) / static_cast<double>(c - last);
    last = c;
  }
  return sum;
}

// The characters of the plot: the dots that are set in each, and the letter that replaces them.
class Canvas {
 public:
  Canvas(int columns, int rows, tools::Glyphs glyphs)
      : columns_(columns), rows_(rows), unicode_(glyphs == tools::Glyphs::unicode),
        dots_(static_cast<std::size_t>(columns * rows), 0), letters_(dots_.size(), 0) {}
  int columns() const { return columns_; }
  int dot_columns() const { return columns_ * (unicode_ ? 2 : 1); }
  int dot_rows() const { return rows_ * (unicode_ ? 4 : 1); }

  void dot(int column, int line) {
    auto& cell = dots_[at(column / (unicode_ ? 2 : 1), line / (unicode_ ? 4 : 1))];
    cell |= unicode_ ? dot_bits[line % 4][column % 2] : 1u;
  }
  void letter(int column, int row, char letter) {
    auto& cell = letters_[at(column, row)];
    cell = cell == 0 || cell == letter ? letter : '=';
  }
  std::string row(int r) const {
    std::string line;
    std::size_t keep = 0;
    for (int c = 0; c < columns_; ++c) {
      const auto dots = dots_[at(c, r)];
      if (const char letter = letters_[at(c, r)]; letter != 0) line += letter;
      else line += dots == 0 ? " " : unicode_ ? braille(dots) : "*";
      if (line.back() != ' ') keep = line.size();
    }
    return (unicode_ ? "\u2502" : "|") + line.substr(0, keep) + "\n";
  }

 private:
  std::size_t at(int column, int row) const { return static_cast<std::size_t>(row * columns_ + column); }
  int columns_, rows_;
  bool unicode_;
  std::vector<unsigned> dots_;
  std::vector<char> letters_;
};

void draw_fine(Canvas& canvas, const std::vector<double>& ys, const Range& y) {
  const int lines = canvas.dot_rows();
  int before = -1;
  for (int c = 0; c < canvas.dot_columns(); ++c) {
    const double value = ys[static_cast<std::size_t>(c)];
    if (std::isnan(value)) {
      before = -1;
      continue;
    }
    const int line = y.high > y.low ? lines - 1 - y.place(value, lines, 0) : lines / 2;
    const int step = before < 0 || before == line ? 0 : line > before ? 1 : -1;  // down or up from the previous column
    for (int l = before < 0 ? line : before + step; l != line; l += step) canvas.dot(c, l);
    canvas.dot(c, line);
    before = line;
  }
}

// Labels in one style, with as many digits as tell them apart and as a label has room for.
std::vector<std::string> labels(const std::vector<double>& values, std::size_t room) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double most = std::max(std::abs(*low), std::abs(*high));
  double step = std::max({(*high - *low) / 1000, most / 1e5, 1e-300});
  const auto wide = [&](const std::vector<std::string>& texts) {
    return std::any_of(texts.begin(), texts.end(), [&](const auto& t) { return t.size() > room; });
  };
  auto out = tools::axis_labels(values, step);
  for (int i = 0; i < 9 && wide(out); ++i) out = tools::axis_labels(values, step *= 10);
  return wide(out) ? tools::axis_labels(values, 0) : out;
}

// Labels of both ends of the x axis. Whole numbers get all their digits.
std::vector<std::string> ends_of(const Range& x) {
  if (x.low == std::floor(x.low) && x.high == std::floor(x.high) && x.high < 1e15 && x.low > -1e15)
    return {base::count_text(std::llround(x.low)), base::count_text(std::llround(x.high))};
  return labels({x.low, x.high}, 12);
}

}  // namespace

std::string draw(const std::vector<Curve>& given, int columns, int rows, tools::Glyphs glyphs,
                 const std::string& across) {
  auto curves = given;
  Range x, y;
  for (auto& c : curves) {
    std::erase_if(c.points, [](const Point& p) {  // so that sums and differences stay finite
      return !(std::abs(p.x) < 1e290 && std::abs(p.y) < 1e290);
    });
    for (const auto& p : c.points) x.take(p.x);
  }
  if (x.low > x.high) return {};
  const int label = 10, plot = std::clamp(columns - label - 1, 10, widest), high = std::clamp(rows - 1, 3, highest);
  Canvas canvas(plot, high, glyphs);
  std::vector<std::vector<double>> heights;
  for (const auto& c : curves) {
    heights.push_back(columns_of(c, x, c.letter == 0 ? canvas.dot_columns() : plot));
    for (const double v : heights.back())
      if (!std::isnan(v)) y.take(v);
  }
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const char letter = curves[i].letter;
    if (letter == 0) draw_fine(canvas, heights[i], y);
    for (int c = 0; letter != 0 && c < plot; ++c)
      if (const double v = heights[i][static_cast<std::size_t>(c)]; !std::isnan(v))
        canvas.letter(c, y.high > y.low ? high - 1 - y.place(v, high, 0) : high / 2, letter);
  }

  const int marked[] = {0, high / 2, high - 1};
  std::vector<double> values;
  for (const int r : marked) values.push_back(y.high - (y.high - y.low) * r / (high - 1));
  const auto beside = labels(values, static_cast<std::size_t>(label - 1));
  std::string out;
  for (int r = 0; r < high; ++r) {
    const auto* at = std::find(std::begin(marked), std::end(marked), r);
    out +=
        fmt::format("{:>{}} ", at == std::end(marked) ? "" : beside[static_cast<std::size_t>(at - marked)], label - 1) +
        canvas.row(r);
  }
  const auto ends = ends_of(x);
  const auto first = fmt::format("{} {}", across, ends[0]);
  const auto& last = ends[1];
  const int gap = std::max(1, plot - static_cast<int>(first.size() + last.size()));
  return out + fmt::format("{:11}{}{:{}}{}\n", "", first, "", gap, last);
}

}  // namespace trainyard::inspect
