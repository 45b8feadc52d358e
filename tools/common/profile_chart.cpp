// Bandwidth over size drawn with characters and as SVG. Both axes are logarithmic.
#include "tools/common/axis_text.h"
#include "tools/common/profile_text.h"
#include "tools/common/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard::tools {

namespace {

double busbw(const plan::CommSeries& s, std::int64_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds / 1e9 * plan::bus_factor(s.operation, s.ranks);
}

struct Range {
  double low = INFINITY, high = 0;
  void take(double v) {
    if (v > 0 && std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  }
  // Position on the axis: 0 at the low end, 1 at the high end; values beyond are clamped.
  double at(double v) const {
    return high > low ? std::clamp(std::log(v / low) / std::log(high / low), 0.0, 1.0) : 0.5;
  }
  double value(double share) const { return low * std::pow(high / low, share); }
};

struct Frame {
  Range bytes, rate;
};
Frame frame_of(const plan::CommSeries& s) {
  Frame f;
  for (const auto& p : s.points) {
    f.bytes.take(static_cast<double>(p.bytes));
    const auto interval = s.fit.interval(p.bytes);
    for (const double t :
         {p.seconds, p.interval.low, p.interval.high, s.fit.seconds(p.bytes), interval.low, interval.high})
      if (t > 0) f.rate.take(busbw(s, p.bytes, t));
  }
  return f;
}

std::string short_bytes(double bytes) { return base::binary_size_text(std::llround(bytes)); }

std::string title(const plan::CommSeries& s) {
  return fmt::format("{} {} on {}: {}{} ranks", s.operation, s.type, s.group,
                     s.groups > 1 ? fmt::format("{} x ", s.groups) : "", s.ranks);
}

std::string chart(const plan::CommSeries& s, int columns, Glyphs glyphs) {
  constexpr int rows = 14, label = 10;
  const int wide = std::max(20, columns - label - 2);
  const auto f = frame_of(s);
  std::vector<std::vector<std::string>> cells(rows, std::vector<std::string>(static_cast<std::size_t>(wide), " "));
  const auto row_of = [&](double rate) {
    return std::clamp(static_cast<int>(std::lround((1 - f.rate.at(rate)) * (rows - 1))), 0, rows - 1);
  };
  const auto mark = [&](int column, int row, const std::string& glyph) {
    cells[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] = glyph;
  };
  const bool unicode = glyphs == Glyphs::unicode;
  for (int c = 0; c < wide; ++c) {
    const auto bytes = static_cast<std::int64_t>(std::llround(f.bytes.value(static_cast<double>(c) / (wide - 1))));
    const auto interval = s.fit.interval(bytes);
    if (interval.low <= 0) continue;
    for (int r = row_of(busbw(s, bytes, interval.low)); r <= row_of(busbw(s, bytes, interval.high)); ++r)
      mark(c, r, unicode ? "\u2591" : ".");
    mark(c, row_of(busbw(s, bytes, s.fit.seconds(bytes))), unicode ? "\u2500" : "-");
  }
  for (const auto& p : s.points)
    mark(static_cast<int>(std::lround(f.bytes.at(static_cast<double>(p.bytes)) * (wide - 1))),
         row_of(busbw(s, p.bytes, p.seconds)), unicode ? "\u25cf" : "o");
  auto out = title(s) + ", busbw in GB/s\n";
  constexpr int marked[] = {0, rows / 2, rows - 1};
  std::vector<double> rates;
  for (const int r : marked) rates.push_back(f.rate.value(1 - static_cast<double>(r) / (rows - 1)));
  const auto labels = axis_labels(rates, 0);
  for (int r = 0; r < rows; ++r) {
    const auto* at = std::find(std::begin(marked), std::end(marked), r);
    out += fmt::format("{:>9} ", at == std::end(marked) ? "" : labels[static_cast<std::size_t>(at - marked)]);
    out += unicode ? "\u2502" : "|";
    std::string line;
    std::size_t keep = 0;
    for (const auto& cell : cells[static_cast<std::size_t>(r)]) {
      line += cell;
      if (cell != " ") keep = line.size();
    }
    out += line.substr(0, keep) + "\n";
  }
  out += fmt::format("{:10}{}", "", unicode ? "\u2514" : "+");
  for (int c = 0; c < wide; ++c) out += unicode ? "\u2500" : "-";
  const auto first = short_bytes(f.bytes.low), last = f.bytes.high > f.bytes.low ? short_bytes(f.bytes.high) : "";
  const int gap = std::max(1, wide - static_cast<int>(first.size() + last.size()));
  return out + fmt::format("\n{:11}{}{:^{}}{}\n\n", "", first, "message size", gap, last);
}

SvgPanel panel_of(const plan::CommSeries& s) {
  SvgPanel panel;
  panel.title = title(s);
  panel.x = {"message size", SvgScale::sizes};
  panel.y = {"busbw, GB/s", SvgScale::logarithmic};
  const auto f = frame_of(s);
  SvgCurve fit;
  SvgBand band;
  constexpr int steps = 160;
  const auto rate = [&](std::int64_t bytes, double seconds) { return busbw(s, bytes, std::max(1e-12, seconds)); };
  for (int i = 0; i <= steps && f.bytes.high > 0; ++i) {
    const auto bytes = static_cast<std::int64_t>(std::llround(f.bytes.value(static_cast<double>(i) / steps)));
    const auto x = std::clamp(static_cast<double>(bytes), f.bytes.low, f.bytes.high);
    const auto interval = s.fit.interval(bytes);
    const auto inside = [&](double y) { return std::clamp(y, f.rate.low, f.rate.high); };
    fit.points.push_back({x, inside(rate(bytes, s.fit.seconds(bytes)))});
    band.low.push_back({x, inside(rate(bytes, interval.low))});
    band.high.push_back({x, inside(rate(bytes, interval.high))});
  }
  panel.curves.push_back(std::move(fit));
  panel.bands.push_back(std::move(band));
  for (const auto& p : s.points)
    panel.marks.push_back(
        {static_cast<double>(p.bytes), busbw(s, p.bytes, p.seconds), busbw(s, p.bytes, p.interval.low),
         busbw(s, p.bytes, p.interval.high),
         fmt::format("{} B: {:.2f} us, {:.3f} GB/s", p.bytes, p.seconds * 1e6, busbw(s, p.bytes, p.seconds))});
  return panel;
}

}  // namespace

std::string profile_charts(const plan::Profile& p, int columns, Glyphs glyphs) {
  std::string out;
  for (const auto& s : p.communication) out += chart(s, columns, glyphs);
  return out;
}

std::string profile_svg(const plan::Profile& p) {
  std::vector<SvgPanel> panels;
  for (const auto& s : p.communication) panels.push_back(panel_of(s));
  return svg_drawing(
      panels,
      fmt::format("{} ranks on {}, {}, {}. Dots: medians with 95 % intervals; line: fit; band: 90 % of repeats.",
                  p.ranks, base::counted(static_cast<std::int64_t>(p.nodes.size()), "node"),
                  p.library.empty() ? p.backend : fmt::format("{}: {}", p.backend, p.library), p.measured_at),
      {panels.size() > 1 ? 2 : 1, 520, 300});
}

}  // namespace trainyard::tools
