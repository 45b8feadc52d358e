// Writes charts as SVG. Colors are CSS classes, so that dark screens can have other colors.
#include "tools/common/svg_chart.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "tools/common/svg_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard::tools {

namespace {

constexpr double left = 66, top = 34, bottom = 44, legend_row = 18, letter = 6.4;

// Colors that most people can tell apart, on white and on near black.
constexpr const char* style =
    "<style>.title{font-size:13px;font-weight:bold}.tick,.axis{font-size:11px}.paper{fill:#fff}text{fill:#333}"
    ".grid{stroke:#ddd}.band{fill:currentColor;fill-opacity:.25}.line,.fit{fill:none;stroke:currentColor;"
    "stroke-width:1.6;stroke-linejoin:round}.dashed{stroke-dasharray:6 3}.dot{fill:currentColor}"
    ".sure{stroke:currentColor}.c0{color:#1f6fb4}.c1{color:#d9541e}.c2{color:#2a9134}.c3{color:#8e4ec6}"
    ".c4{color:#b8860b}.c5{color:#c2297a}.c6{color:#0e8a8a}.c7{color:#666}"
    "@media (prefers-color-scheme:dark){.paper{fill:#16191d}text{fill:#d5d9de}.grid{stroke:#343a41}.c0{color:#63aef0}"
    ".c1{color:#ff8f5a}.c2{color:#62cf6d}.c3{color:#c69bf5}.c4{color:#e8c14c}.c5{color:#ff7fbe}.c6{color:#4fd0d0}"
    ".c7{color:#aaa}}</style>\n";

// Escapes text from a file or a command line for XML.
std::string escaped(std::string_view given) {
  const auto text = base::one_line(given);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (const auto three = std::string_view(text).substr(i, 3); three == "\xEF\xBF\xBE" || three == "\xEF\xBF\xBF") {
      out += '?', i += 2;  // the two characters that are valid in UTF-8 and not in XML
      continue;
    }
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return out;
}

// As much of a text as fits into so many pixels, in whole UTF-8 characters.
std::string fitted(const std::string& given, double pixels) {
  auto text = base::one_line(given);
  const auto most = static_cast<std::size_t>(std::max(8.0, pixels / letter));
  if (text.size() <= most) return text;
  auto end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string color_class(int color) { return fmt::format("c{}", ((color % 8) + 8) % 8); }

struct Thinned {
  std::vector<SvgPoint> mean, low, high;
};
// Reduces points to one column for each pixel.
Thinned thinned(const std::vector<SvgPoint>& points, const SvgRange& across, int columns) {
  struct Column {
    double x = 0, y = 0, low = INFINITY, high = -INFINITY;
    std::size_t n = 0;
  };
  std::vector<Column> all(static_cast<std::size_t>(columns));
  for (const auto& p : points) {
    auto& c = all[static_cast<std::size_t>(std::lround(across.at(p.x) * (columns - 1)))];
    ++c.n;
    c.x += (p.x - c.x) / static_cast<double>(c.n);
    c.y += (p.y - c.y) / static_cast<double>(c.n);
    c.low = std::min(c.low, p.y), c.high = std::max(c.high, p.y);
  }
  Thinned out;
  for (const auto& c : all)
    if (c.n > 0) {
      out.mean.push_back({c.x, c.y});
      out.low.push_back({c.x, c.low}), out.high.push_back({c.x, c.high});
    }
  return out;
}

class Panel {
 public:
  Panel(const SvgPanel& panel, double x, double y, const SvgLayout& layout)
      : panel_(panel), x_range_(panel.x.scale), y_range_(panel.y.scale), x_(x), y_(y), layout_(layout) {
    const auto take = [&](const SvgPoint& p) {
      if (x_range_.holds(p.x) && y_range_.holds(p.y)) x_range_.take(p.x), y_range_.take(p.y);
    };
    for (const auto& c : panel.curves) std::for_each(c.points.begin(), c.points.end(), take);
    for (const auto& b : panel.bands)
      for (const auto* side : {&b.low, &b.high}) std::for_each(side->begin(), side->end(), take);
    for (const auto& m : panel.marks)
      for (const double y_of : {m.y, m.low, m.high}) take({m.x, y_of});
    const double half = panel.y.names.empty() ? 0.5 : 0;  // rows with names get their height below
    for (const auto& b : panel.bars) take({b.begin, b.y - half}), take({b.end, b.y + half});
    if (x_range_.any() && !panel.y.names.empty())
      y_range_.take(-0.5), y_range_.take(static_cast<double>(panel.y.names.size()) - 0.5);
    empty_ = !x_range_.any();
    y_range_.widen();
    rows_ = lay_out_legend();
  }

  std::string draw() {
    auto out = fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"title\">{}</text>", x_ + left, y_ + 20,
                           escaped(fitted(panel_.title, plot_width() * 0.87)));
    out += fmt::format(
        "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate({:.0f} {:.0f}) rotate(-90)\">{}</text>",
        x_ + 13, plot_top() + plot_height() / 2, escaped(panel_.y.label));
    out += fmt::format("<text class=\"axis\" text-anchor=\"middle\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
                       x_ + left + plot_width() / 2, plot_top() + plot_height() + 33, escaped(panel_.x.label));
    if (empty_)
      return out + fmt::format(
                       "<text class=\"axis\" text-anchor=\"middle\" x=\"{:.0f}\" y=\"{:.0f}\">nothing to "
                       "draw</text>\n",
                       x_ + left + plot_width() / 2, plot_top() + plot_height() / 2);
    out += grid() + legend_;
    for (const auto& b : panel_.bands) out += band(b.low, b.high, b.color);
    for (const auto& c : panel_.curves) out += curve(c);
    for (const auto& m : panel_.marks) out += mark(m);
    for (const auto& b : panel_.bars) out += bar(b);
    return out;
  }

 private:
  double right() const {
    double most = 26;
    for (const auto& m : panel_.y.row_scale) most = std::max(most, 12 + letter * static_cast<double>(m.text.size()));
    return most;
  }
  double plot_width() const { return layout_.width - left - right(); }
  double plot_top() const { return y_ + top + rows_ * legend_row; }
  double plot_height() const { return layout_.height - top - bottom - rows_ * legend_row; }
  double across(double x) const { return x_ + left + x_range_.at(x) * plot_width(); }
  double height(double y) const { return plot_top() + (1 - y_range_.at(y)) * plot_height(); }

  std::vector<SvgPoint> drawable(const std::vector<SvgPoint>& points) const {
    auto out = points;
    std::erase_if(out, [&](const SvgPoint& p) { return !x_range_.holds(p.x) || !y_range_.holds(p.y); });
    return out;
  }
  std::string places(const std::vector<SvgPoint>& points) const {
    std::string out;
    for (const auto& p : points)
      out += fmt::format("{}{:.1f},{:.1f}", out.empty() ? "" : " ", across(p.x), height(p.y));
    return out;
  }
  std::string band(const std::vector<SvgPoint>& low, const std::vector<SvgPoint>& high, int color) const {
    auto around = drawable(low), back = drawable(high);
    around.insert(around.end(), back.rbegin(), back.rend());
    if (around.size() < 3) return {};
    return fmt::format("<g class=\"{}\"><polygon class=\"band\" points=\"{}\"/></g>\n", color_class(color),
                       places(around));
  }
  std::string curve(const SvgCurve& c) const {
    auto points = drawable(c.points);
    std::string out;
    const int columns = static_cast<int>(plot_width());
    if (points.size() > static_cast<std::size_t>(2 * columns)) {
      const auto few = thinned(points, x_range_, columns);
      out += band(few.low, few.high, c.color);
      points = few.mean;
    }
    if (points.size() > 1)
      out += fmt::format("<g class=\"{}\"><polyline class=\"line{}\" points=\"{}\"/></g>\n", color_class(c.color),
                         c.dashed ? " dashed" : "", places(points));
    if (c.dots || points.size() == 1)
      for (const auto& p : points)
        out += fmt::format("<g class=\"{}\"><circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/></g>\n",
                           color_class(c.color), across(p.x), height(p.y));
    return out;
  }
  std::string mark(const SvgMark& m) const {
    if (!x_range_.holds(m.x) || !y_range_.holds(m.y)) return {};
    std::string out = "<g class=\"c1\">";
    if (y_range_.holds(m.low) && y_range_.holds(m.high))
      out += fmt::format("<line class=\"sure\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>",
                         across(m.x), height(m.low), height(m.high));
    return out +
           fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"><title>{}</title></circle></g>\n",
                       across(m.x), height(m.y), escaped(m.title));
  }
  std::string bar(const SvgBar& b) const {
    if (!x_range_.holds(b.begin) || !x_range_.holds(b.end) || !y_range_.holds(b.y)) return {};
    const double x = across(b.begin), wide = across(b.end) - x, y = height(b.y + b.height / 2),
                 high = height(b.y - b.height / 2) - y;
    auto out = fmt::format(
        "<g class=\"{}\"><rect class=\"band sure\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
        "stroke-width=\"0.5\"{}><title>{}</title></rect></g>",
        color_class(b.color), x, y, std::max(0.0, wide), high,
        b.opacity == SvgBar().opacity ? "" : fmt::format(" style=\"fill-opacity:{:.2f}\"", b.opacity),
        escaped(b.title));
    if (!b.text.empty() && letter * static_cast<double>(b.text.size()) <= wide)
      out += fmt::format("<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                         x + wide / 2, y + high / 2 + 4, escaped(b.text));
    return out + "\n";
  }
  // Labels of rows, as many as do not overlap.
  std::vector<SvgRange::Tick> rows() const {
    const auto n = panel_.y.names.size();
    const auto each =
        std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(12.0 * static_cast<double>(n) / plot_height())));
    std::vector<SvgRange::Tick> out;
    for (std::size_t i = 0; i < n; i += each)
      out.push_back({static_cast<double>(n - 1 - i), escaped(fitted(panel_.y.names[i], left - 8))});
    return out;
  }
  // Draws scale lines in every row, and labels where they do not overlap. Labels between the ends are only in high
  // rows.
  std::string row_scales() const {
    const auto& scale = panel_.y.row_scale;
    if (scale.empty()) return {};
    constexpr double text_height = 10;
    const auto n = panel_.y.names.size();
    const double row = height(0) - height(1), span = row * (scale.back().at - scale.front().at);
    const bool inside = span >= 2 * text_height, all = span >= text_height * static_cast<double>(scale.size() + 1);
    const auto each = inside ? std::size_t{1} : static_cast<std::size_t>(std::ceil(2.2 * text_height / row));
    std::string out;
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t k = 0; k < scale.size(); ++k) {
        const bool first = k == 0, last = k + 1 == scale.size();
        if (!first && !last && !all) continue;
        const double y = height(static_cast<double>(n - 1 - r) + scale[k].at);
        out += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", x_ + left,
                           x_ + left + plot_width(), y, y);
        if (r % each != 0) continue;
        // The lowest label is above its line and the highest below, so that labels of neighbouring rows do not overlap.
        const double base = y + (!inside ? 4 : first ? 0 : last ? 9 : 4);
        out += fmt::format("<text class=\"tick scale\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                           x_ + left + plot_width() + 6, base, escaped(scale[k].text));
      }
    return out;
  }
  std::string grid() const {
    std::string out;
    const auto line = [&](double x1, double x2, double y1, double y2) {
      out +=
          fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", x1, x2, y1, y2);
    };
    for (const auto& t : panel_.y.names.empty() ? y_range_.ticks(plot_height() / 36) : rows()) {
      if (panel_.y.row_scale.empty()) line(x_ + left, x_ + left + plot_width(), height(t.value), height(t.value));
      out += fmt::format("<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                         x_ + left - 6, height(t.value) + 4, t.text);
    }
    out += row_scales();
    for (const auto& t : x_range_.ticks(plot_width() / 80)) {
      line(across(t.value), across(t.value), plot_top(), plot_top() + plot_height());
      out += fmt::format("<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                         across(t.value), plot_top() + plot_height() + 16, t.text);
    }
    return out;
  }
  // Places the legend's entries side by side under the title. Returns how many lines they take.
  int lay_out_legend() {
    double x = x_ + left;
    int row = 0;
    const auto entry = [&](const std::string& given, int color, const auto& sign) {
      const auto name = fitted(given, plot_width() / 2);
      const double wide = 34 + letter * static_cast<double>(name.size());
      if (row == 0) row = 1;
      if (x > x_ + left && x + wide > x_ + layout_.width - right()) x = x_ + left, ++row;
      const double y = y_ + top - 8 + row * legend_row - 6;
      legend_ += fmt::format("<g class=\"{}\">{}</g><text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                             color_class(color), sign(x, y), x + 25, y + 4, escaped(name));
      x += wide;
    };
    for (const auto& c : panel_.curves)
      if (!c.name.empty())
        entry(c.name, c.color, [&](double at, double y) {
          return fmt::format("<line class=\"line{0}\" x1=\"{1:.1f}\" x2=\"{2:.1f}\" y1=\"{3:.1f}\" y2=\"{3:.1f}\"/>",
                             c.dashed ? " dashed" : "", at, at + 20, y);
        });
    for (const auto& k : panel_.keys)
      entry(k.name, k.color, [](double at, double y) {
        return fmt::format(
            "<rect class=\"band key\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"20\" height=\"10\" stroke=\"currentColor\" "
            "stroke-width=\"0.5\"/>",
            at, y - 5);
      });
    return row;
  }

  const SvgPanel& panel_;
  SvgRange x_range_, y_range_;
  double x_, y_;
  SvgLayout layout_;
  bool empty_ = false;
  int rows_ = 0;
  std::string legend_;
};

}  // namespace

std::string svg_drawing(const std::vector<SvgPanel>& panels, const std::string& caption, SvgLayout layout) {
  std::string drawn;
  double y = 0, row_height = 0;
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const int column = static_cast<int>(i) % layout.columns;
    if (column == 0) y += row_height, row_height = 0;
    auto own = layout;
    if (panels[i].height > 0) own.height = panels[i].height;
    row_height = std::max(row_height, own.height);
    drawn += Panel(panels[i], column * layout.width, y, own).draw();
  }
  const double width = layout.columns * layout.width, height = y + row_height + 30;
  auto out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\">\n",
      width, height);
  out += style;
  out += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" + drawn;
  return out + fmt::format("<text class=\"tick\" x=\"12\" y=\"{:.0f}\">{}</text>\n</svg>\n", height - 10,
                           escaped(fitted(caption, width * 1.15)));
}

SvgScale fitting_scale(const std::vector<SvgCurve>& curves) {
  double low = INFINITY, high = 0;
  for (const auto& c : curves)
    for (const auto& p : c.points) {
      if (!std::isfinite(p.y)) continue;
      if (p.y <= 0) return SvgScale::linear;
      low = std::min(low, p.y), high = std::max(high, p.y);
    }
  return high > 0 && high / low > 100 ? SvgScale::logarithmic : SvgScale::linear;
}

}  // namespace trainyard::tools
