// Draws loads of experts: a row for each layer, with characters or as SVG.
#include "libtrain/base/text.h"
#include "tools/common/svg_chart.h"
#include "tools/inspect/experts.h"
#include "tools/inspect/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace trainyard::inspect {

namespace {

constexpr std::size_t most_layers = 128;  // layers that are drawn
constexpr int widest_map = 1000, cells_in_svg = 200;

// The steps of a run in columns of equally many steps.
struct StepColumns {
  std::int64_t first = 0, each = 1;
  int columns = 1;
  std::int64_t begin(int c) const { return first + c * each; }
};

StepColumns columns_of_steps(const ExpertHistory& h, int most) {
  const auto steps = h.last - h.first + 1;
  StepColumns out;
  out.first = h.first;
  out.each = (steps + most - 1) / most;
  out.columns = static_cast<int>((steps + out.each - 1) / out.each);
  return out;
}

// Means of the samples in each column; NaN in a column without samples.
std::vector<double> means_of(const ExpertLayer& layer, double ExpertSample::*value, const StepColumns& of) {
  std::vector<double> sum(static_cast<std::size_t>(of.columns), 0), n(sum.size(), 0);
  for (const auto& s : layer.samples) {
    if (!(std::abs(s.*value) < 1e290)) continue;
    const auto c = static_cast<std::size_t>((s.step - of.first) / of.each);
    sum[c] += s.*value;
    n[c] += 1;
  }
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = n[c] > 0 ? sum[c] / n[c] : absent;
  return sum;
}

// One map: a row of means for each layer, and the values of the lowest and the highest sign.
struct LoadMap {
  StepColumns steps;
  std::vector<std::vector<double>> rows;
  double low = 0, high = 0;
  double share(double v) const { return high > low ? std::clamp((v - low) / (high - low), 0.0, 1.0) : 0; }
};

LoadMap map_of(const ExpertHistory& h, double ExpertSample::*value, double low, int columns) {
  LoadMap map;
  map.steps = columns_of_steps(h, columns);
  map.low = map.high = low;
  for (std::size_t i = 0; i < std::min(most_layers, h.layers.size()); ++i) {
    map.rows.push_back(means_of(h.layers[i], value, map.steps));
    for (const double v : map.rows.back())
      if (!std::isnan(v)) map.high = std::max(map.high, v);
  }
  return map;
}

std::string layer_name(const ExpertLayer& layer) { return fmt::format("layer {}", layer.layer); }

std::string load_text(double load) { return std::isnan(load) ? "" : fmt::format("{:.2f}", load); }
std::string share_text(double share) { return std::isnan(share) ? "" : fmt::format("{:.1f} %", 100 * share); }

std::size_t width_of_names(const ExpertHistory& h, std::size_t layers) {
  std::size_t wide = 0;
  for (std::size_t i = 0; i < layers; ++i) wide = std::max(wide, layer_name(h.layers[i]).size());
  return wide;
}

std::vector<std::string> signs(tools::Glyphs glyphs) {
  if (glyphs == tools::Glyphs::ascii) return {".", ":", "-", "=", "+", "*", "#", "@"};
  return {"\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
}

std::string map_text(const ExpertHistory& h, const LoadMap& map, double ExpertSample::*value, tools::Glyphs glyphs,
                     std::string (*words)(double)) {
  const auto levels = signs(glyphs);
  const std::string edge = glyphs == tools::Glyphs::unicode ? "\u2502" : "|";
  const auto label = width_of_names(h, map.rows.size()) + 1;
  std::string out;
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    out += fmt::format("{:<{}}{}", layer_name(h.layers[i]), label, edge);
    for (const double v : map.rows[i])
      out += std::isnan(v)
                 ? " "
                 : levels[std::min(levels.size() - 1,
                                   static_cast<std::size_t>(map.share(v) * static_cast<double>(levels.size())))];
    const auto last = h.layers[i].samples.back().*value;
    out += fmt::format("{} {}\n", edge, words(last));
  }
  const auto first = fmt::format("step {}", h.first), last = fmt::format("{}", h.last);
  const int gap = std::max(1, map.steps.columns - static_cast<int>(first.size() + last.size()));
  out += fmt::format("{:{}}{}{:{}}{}\n", "", label + 1, first, "", gap, last);
  return out + fmt::format("{} {}, {} {}; a column is {}; numbers at the right: the last step\n", levels.front(),
                           words(map.low), levels.back(), words(map.high), base::counted(map.steps.each, "step"));
}

// The largest value and its step.
std::pair<double, std::int64_t> worst(const ExpertLayer& layer, double ExpertSample::*value) {
  std::pair<double, std::int64_t> out{absent, 0};
  for (const auto& s : layer.samples)
    if (std::isfinite(s.*value) && !(s.*value <= out.first)) out = {s.*value, s.step};
  return out;
}

std::string numbers_of_experts(const ExpertHistory& h, std::size_t layers) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < layers; ++i) {
    const auto& layer = h.layers[i];
    const auto& last = layer.samples.back();
    const auto fullest = worst(layer, &ExpertSample::fullest), dropped = worst(layer, &ExpertSample::dropped_share);
    const auto at = [](const std::pair<double, std::int64_t>& found, const std::string& text) {
      return std::isnan(found.first) ? std::string() : fmt::format("{} at {}", text, found.second);
    };
    const auto number = [](double v) { return std::isnan(v) ? std::string() : number_text(v); };
    rows.push_back({fmt::format("{}", layer.layer), layer.experts > 0 ? fmt::format("{}", layer.experts) : "",
                    load_text(last.fullest), at(fullest, load_text(fullest.first)), load_text(last.emptiest),
                    share_text(last.dropped_share), at(dropped, share_text(dropped.first)), number(last.balance_loss),
                    number(last.z_loss), number(last.entropy)});
  }
  return tools::table(
      {">layer", ">experts", ">fullest", ">worst", ">emptiest", ">dropped", ">worst", ">balance", ">z", ">entropy"},
      rows);
}

tools::SvgPanel panel_of_experts(const ExpertHistory& h, const LoadMap& map, std::string title,
                                 std::string (*words)(double)) {
  tools::SvgPanel p;
  p.title = std::move(title);
  p.x.label = "step", p.y.label = "";
  const auto rows = map.rows.size();
  // In units of a row: its foot, the lowest bar, and the most that a bar adds.
  constexpr double bottom = -0.45, least = 0.02, most = 0.88;
  p.y.row_scale.push_back({bottom + least, words(map.low)});
  if (map.high > map.low) {
    p.y.row_scale.push_back({bottom + least + most / 2, words((map.low + map.high) / 2)});
    p.y.row_scale.push_back({bottom + least + most, words(map.high)});
  }
  for (std::size_t r = 0; r < rows; ++r) {
    p.y.names.push_back(layer_name(h.layers[r]));
    const double foot = static_cast<double>(rows - 1 - r) + bottom;
    for (int c = 0; c < map.steps.columns; ++c) {
      const double v = map.rows[r][static_cast<std::size_t>(c)];
      if (std::isnan(v)) continue;
      const double high = least + most * map.share(v);
      const auto begin = map.steps.begin(c), end = begin + map.steps.each;
      p.bars.push_back({static_cast<double>(begin) - 0.5, static_cast<double>(end) - 0.5, foot + high / 2, high, 0, "",
                        fmt::format("layer {}, step{}: {}", h.layers[r].layer,
                                    map.steps.each == 1 ? fmt::format(" {}", begin)
                                                        : fmt::format("s {} to {}", begin, std::min(end - 1, h.last)),
                                    words(v))});
    }
  }
  return p;
}

}  // namespace

std::string experts_text(const ExpertHistory& h, int columns, tools::Glyphs glyphs) {
  const auto layers = std::min(most_layers, h.layers.size());
  constexpr int number = 9;  // width of the number at the right of a row, with
  const int wide = std::clamp(columns - static_cast<int>(width_of_names(h, layers)) - number - 1, 10, widest_map);
  auto out =
      fmt::format("{} with experts, {}\n\nload of the fullest expert (1.00: as many choices as all on average)\n",
                  base::counted(std::ssize(h.layers), "layer"), base::counted(h.steps, "step"));
  out += map_text(h, map_of(h, &ExpertSample::fullest, 1, wide), &ExpertSample::fullest, glyphs, load_text);
  const auto dropped = map_of(h, &ExpertSample::dropped_share, 0, wide);
  out += dropped.high > 0
             ? "\nchoices that got no place\n" + map_text(h, dropped, &ExpertSample::dropped_share, glyphs, share_text)
             : std::string("\nevery choice got a place\n");
  if (layers < h.layers.size()) out += fmt::format("{} layers more are not drawn\n", h.layers.size() - layers);
  return out + "\n" + numbers_of_experts(h, layers) +
         "numbers of the last step; worst: the worst value and its step\nlosses before their coefficients are applied; "
         "entropy in nats\n";
}

std::string experts_drawing(const ExpertHistory& h, const std::string& name) {
  const auto loads = map_of(h, &ExpertSample::fullest, 1, cells_in_svg),
             dropped = map_of(h, &ExpertSample::dropped_share, 0, cells_in_svg);
  std::vector<tools::SvgPanel> panels{panel_of_experts(
      h, loads, fmt::format("load of the fullest expert, {} to {}", load_text(1), load_text(loads.high)), load_text)};
  if (dropped.high > 0)
    panels.push_back(panel_of_experts(
        h, dropped, fmt::format("choices that got no place, 0 to {}", share_text(dropped.high)), share_text));
  return tools::svg_drawing(panels,
                            fmt::format("{} - {}, {} with experts; 1: as many choices as all on average", name,
                                        base::counted(h.steps, "step"), base::counted(std::ssize(h.layers), "layer")),
                            {1, 860, std::clamp(100.0 + 30.0 * static_cast<double>(loads.rows.size()), 180.0, 1600.0)});
}

}  // namespace trainyard::inspect
