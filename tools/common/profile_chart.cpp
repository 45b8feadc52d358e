// Bandwidth over size drawn with characters and as SVG. Both axes are logarithmic.
#include "tools/common/profile_text.h"

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
  // 0 at the low end, 1 at the high one; the values themselves keep inside.
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
  for (int r = 0; r < rows; ++r) {
    const bool labelled = r == 0 || r == rows - 1 || r == rows / 2;
    out += labelled ? fmt::format("{:>9.3g} ", f.rate.value(1 - static_cast<double>(r) / (rows - 1)))
                    : fmt::format("{:10}", "");
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

constexpr double panel_width = 520, panel_height = 300, left = 62, right = 30, top = 34, bottom = 40;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

class Panel {
 public:
  Panel(const plan::CommSeries& s, double x, double y) : s_(s), f_(frame_of(s)), x_(x), y_(y) {
    f_.rate.low /= 1.15, f_.rate.high *= 1.15;
  }
  std::string draw() const {
    const double middle = y_ + top + (panel_height - top - bottom) / 2;
    auto out = fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"title\">{}</text>", x_ + left, y_ + 20,
                           escaped(title(s_)));
    out += fmt::format(
        "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate({:.0f} {:.0f}) rotate(-90)\">busbw, "
        "GB/s</text>",
        x_ + 13, middle);
    out += fmt::format("<text class=\"axis\" text-anchor=\"middle\" x=\"{:.0f}\" y=\"{:.0f}\">message size</text>\n",
                       x_ + left + (panel_width - left - right) / 2, y_ + panel_height - bottom + 32);
    out += grid() + band();
    out += fmt::format("<polyline class=\"fit\" points=\"{}\"/>\n",
                       fmt::join(curve([](const plan::LinkFit& fit, std::int64_t b) { return fit.seconds(b); }), " "));
    for (const auto& p : s_.points) {
      const double x = across(static_cast<double>(p.bytes));
      out += fmt::format("<line class=\"sure\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>", x,
                         down(p.bytes, p.interval.low), down(p.bytes, p.interval.high));
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"><title>{} B: {:.2f} us, {:.3f} GB/s</title></circle>\n", x,
          down(p.bytes, p.seconds), p.bytes, p.seconds * 1e6, busbw(s_, p.bytes, p.seconds));
    }
    return out;
  }

 private:
  double across(double bytes) const { return x_ + left + f_.bytes.at(bytes) * (panel_width - left - right); }
  double height(double rate) const {
    return y_ + panel_height - bottom - f_.rate.at(rate) * (panel_height - top - bottom);
  }
  double down(std::int64_t bytes, double seconds) const { return height(busbw(s_, bytes, seconds)); }
  template <class Seconds> std::vector<std::string> curve(const Seconds& seconds) const {
    std::vector<std::string> points;
    constexpr int steps = 160;
    for (int i = 0; i <= steps; ++i) {
      const auto bytes = static_cast<std::int64_t>(std::llround(f_.bytes.value(static_cast<double>(i) / steps)));
      points.push_back(fmt::format("{:.1f},{:.1f}", across(static_cast<double>(bytes)),
                                   down(bytes, std::max(1e-12, seconds(s_.fit, bytes)))));
    }
    return points;
  }
  std::string band() const {
    auto low = curve([](const plan::LinkFit&fit, std::int64_t b) { return fit.interval(b).low; }),
         high = curve([](const plan::LinkFit&fit, std::int64_t b) { return fit.interval(b).high; });
    low.insert(low.end(), high.rbegin(), high.rend());
    return fmt::format("<polygon class=\"band\" points=\"{}\"/>\n", fmt::join(low, " "));
  }
  // Values to write at an axis: those of a ladder inside the range, or its ends where fewer than two are.
  static std::vector<double> ticks(std::vector<double> ladder, const Range& range) {
    std::erase_if(ladder, [&](double v) { return v < range.low * (1 - 1e-9) || v > range.high * (1 + 1e-9); });
    return ladder.size() > 1 ? ladder : std::vector{range.low, range.high};
  }
  std::string grid() const {
    std::string out;
    std::vector<double> rates, sizes;
    for (double rate = std::pow(10, std::floor(std::log10(f_.rate.low))); rate <= f_.rate.high; rate *= 10)
      for (const int k : {1, 2, 5})
        if (k == 1 || f_.rate.high / f_.rate.low <= 1000) rates.push_back(rate * k);
    for (const double rate : ticks(rates, f_.rate))
      out += fmt::format(
          "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text class=\"tick\" "
          "text-anchor=\"end\" x=\"{3:.1f}\" y=\"{4:.1f}\">{5:.3g}</text>\n",
          x_ + left, x_ + panel_width - right, height(rate), x_ + left - 6, height(rate) + 4, rate);
    const double step = f_.bytes.high / f_.bytes.low > 4096 ? 32 : 4;
    for (double bytes = std::pow(2, std::ceil(std::log2(f_.bytes.low))); bytes <= f_.bytes.high; bytes *= step)
      sizes.push_back(bytes);
    sizes = ticks(sizes, f_.bytes);
    if (f_.bytes.at(f_.bytes.high) - f_.bytes.at(sizes.back()) > 0.12)
      sizes.push_back(f_.bytes.high);  // the right end too, where there is room
    if (f_.bytes.high <= f_.bytes.low) sizes.resize(1);
    for (const double bytes : sizes)
      out += fmt::format(
          "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/><text class=\"tick\" "
          "text-anchor=\"middle\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n",
          across(bytes), y_ + top, y_ + panel_height - bottom, y_ + panel_height - bottom + 16, short_bytes(bytes));
    return out;
  }
  const plan::CommSeries& s_;
  Frame f_;
  double x_, y_;
};

}  // namespace

std::string profile_charts(const plan::Profile& p, int columns, Glyphs glyphs) {
  std::string out;
  for (const auto& s : p.communication) out += chart(s, columns, glyphs);
  return out;
}

std::string profile_svg(const plan::Profile& p) {
  const int columns = p.communication.size() > 1 ? 2 : 1,
            rows = (static_cast<int>(p.communication.size()) + columns - 1) / columns;
  const double width = columns * panel_width, height = rows * panel_height + 30;
  auto out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\">\n",
      width, height);
  out +=
      "<style>.title{font-size:13px;font-weight:bold}.tick,.axis{font-size:11px;fill:#444}.grid{stroke:#ddd}.band{fill:"
      "#9ecae1;fill-opacity:.55}.fit{fill:none;stroke:#08519c;stroke-width:1.6}"
      ".sure{stroke:#d94801}circle{fill:#d94801}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (std::size_t i = 0; i < p.communication.size(); ++i)
    out += Panel(p.communication[i], static_cast<double>(static_cast<int>(i) % columns) * panel_width,
                 static_cast<double>(static_cast<int>(i) / columns) * panel_height)
               .draw();
  out += fmt::format(
      "<text class=\"tick\" x=\"12\" y=\"{:.0f}\">{} ranks on {} node{}, {}, {}. Dots: medians with 95 % intervals; "
      "line: fit; band: 90 % of repeats.</text>\n</svg>\n",
      height - 10, p.ranks, p.nodes.size(), p.nodes.size() == 1 ? "" : "s",
      escaped(p.library.empty() ? p.backend : fmt::format("{}: {}", p.backend, p.library)), p.measured_at);
  return out;
}

}  // namespace trainyard::tools
