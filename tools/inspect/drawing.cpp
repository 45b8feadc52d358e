// Makes panels of curves.
#include "tools/inspect/drawing.h"

#include "libtrain/base/number_text.h"
#include "tools/common/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard::inspect {

using tools::SvgCurve;
using tools::SvgPanel;

namespace {

void by_place(std::vector<tools::SvgPoint>& points) {
  std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
}

std::vector<tools::SvgPoint> svg_points(const std::vector<Point>& points) {
  std::vector<tools::SvgPoint> out;
  out.reserve(points.size());
  for (const auto& p : points) out.push_back({p.x, p.y});
  by_place(out);
  return out;
}

SvgCurve loss_curve(const History& h, Across across, int color) {
  SvgCurve c;
  c.points = svg_points(curve_of(h, across, &Sample::loss));
  c.color = color;
  return c;
}
SvgCurve validation_curve(const History& h, Across across, int color) {
  SvgCurve c;
  c.points = svg_points(curve_of(h, across, &Sample::validation_loss));
  c.color = color;
  c.dashed = true;
  c.dots = c.points.size() <= 50;
  return c;
}

SvgPanel panel(const std::string& title, const std::string& unit, Across across, std::vector<SvgCurve> curves) {
  SvgPanel p;
  p.title = title;
  p.x = {label_of(across), tools::SvgScale::linear};
  p.y = {unit, tools::fitting_scale(curves)};
  p.curves = std::move(curves);
  return p;
}

}  // namespace

std::string run_drawing(const std::string& name, const History& h, Across across) {
  std::vector<SvgCurve> losses{loss_curve(h, across, 0)};
  if (auto validation = validation_curve(h, across, 1); !validation.points.empty()) {
    losses.push_back(std::move(validation));
    losses[0].name = "train", losses[1].name = "validation";
  }
  std::vector<SvgPanel> panels{panel(fmt::format("loss of {}", name), "nats", across, std::move(losses))};
  struct Other {
    const char *title, *unit;
    std::vector<Point> points;
  };
  for (const auto& other : {Other{"gradient norm", "norm", curve_of(h, across, &Sample::gradient_norm)},
                            Other{"learning rate", "rate", curve_of(h, across, &Sample::learning_rate)},
                            Other{"throughput", "tokens/s", curve_of(h, across, &Sample::tokens_per_second)}}) {
    SvgCurve c;
    c.points = svg_points(other.points);
    if (c.points.empty()) continue;
    panels.push_back(panel(other.title, other.unit, across, {std::move(c)}));
    if (panels.back().title == "learning rate")
      panels.back().y.scale = tools::SvgScale::linear;  // schedules are drawn so
  }
  const auto wrong = not_finite(h);
  return tools::svg_drawing(
      panels,
      fmt::format(
          "{}{}{}", base::counted(std::ssize(h.samples), "step"),
          h.began.empty() ? "" : fmt::format(", {} to {}{}", h.began, h.ended, h.host.empty() ? "" : " on " + h.host),
          wrong > 0 ? fmt::format("; {} not finite and left out", wrong) : ""),
      panels.size() > 1 ? tools::SvgLayout{2, 520, 300} : tools::SvgLayout{});
}

std::string comparison_drawing(const std::vector<NamedHistory>& runs, Across across) {
  std::vector<SvgCurve> losses, validations, differences;
  double largest = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& h = runs[i].history;
    losses.push_back(loss_curve(h, across, static_cast<int>(i)));
    losses.back().name = runs[i].name;
    if (auto v = validation_curve(h, across, static_cast<int>(i)); !v.points.empty())
      validations.push_back(std::move(v));
    if (i == 0) continue;
    SvgCurve difference;
    difference.name = runs[i].name;
    difference.color = static_cast<int>(i);
    const auto& first = runs[0].history.samples;
    const auto x = places(h, across);
    for (std::size_t a = 0, b = 0; a < first.size() && b < h.samples.size();) {
      if (first[a].step != h.samples[b].step) {
        ++(first[a].step < h.samples[b].step ? a : b);
        continue;
      }
      if (first[a].loss && h.samples[b].loss)
        if (const double d = *h.samples[b].loss - *first[a].loss; d != 0 && std::isfinite(d)) {
          difference.points.push_back({x[b], d});
          largest = std::max(largest, std::abs(d));
        }
      ++a, ++b;
    }
    by_place(difference.points);
    if (!difference.points.empty()) differences.push_back(std::move(difference));
  }
  losses.insert(losses.end(), validations.begin(), validations.end());
  std::vector<SvgPanel> panels{panel("loss", "nats", across, std::move(losses))};
  // Differences that can be seen have a sign. Of differences by rounding the size matters.
  const bool by_rounding = largest < 0.01;
  if (by_rounding)
    for (auto& curve : differences)
      for (auto& point : curve.points) point.y = std::abs(point.y);
  if (!differences.empty()) {
    panels.push_back(panel(by_rounding ? fmt::format("size of the loss difference to {}", runs[0].name)
                                       : fmt::format("loss minus the loss of {}", runs[0].name),
                           "nats", across, std::move(differences)));
    panels.back().y.scale = by_rounding ? tools::SvgScale::logarithmic : tools::SvgScale::linear;
  }
  return tools::svg_drawing(panels,
                            validations.empty() ? fmt::format("{} runs", runs.size())
                                                : fmt::format("{} runs; dashed: validation", runs.size()),
                            {1, 860, panels.size() > 1 ? 340.0 : 420.0});
}

}  // namespace trainyard::inspect
