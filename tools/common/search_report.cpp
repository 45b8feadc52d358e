// Tables and curves of found layouts.
#include "tools/common/search_report.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/layout_text.h"
#include "tools/common/svg_chart.h"
#include "tools/common/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::tools {

double model_flops_of(const plan::FoundPlan& found) { return plan::device_model_flops(found.plan, found.time.seconds); }

std::string layout_name(const plan::FoundPlan& found) {
  const auto text = plan::layout_text(found.plan);
  return text.empty() ? "(all defaults)" : text;
}

nlohmann::ordered_json json_of(const plan::FoundPlan& found) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (const auto& part : plan::step_time_parts) parts[part.key] = found.time.*part.seconds;
  return {{"layout", plan::layout_text(found.plan)},
          {"ranks", found.plan.topology.world()},
          {"step_seconds", found.time.seconds},
          {"parts", parts},
          {"rank_bytes", found.bytes},
          {"tokens_per_second", plan::tokens_a_second(found)},
          {"model_flops_per_device", model_flops_of(found)}};
}

namespace {

const plan::FoundPlan* first_of(const std::vector<plan::ScalePoint>& points) {
  for (const auto& p : points)
    if (p.best.found) return &*p.best.found;
  return nullptr;
}

SvgMark mark_of(double x, double y, const plan::FoundPlan& found) {
  return {x, y, y, y, fmt::format("{} a step: {}", plan::step_seconds_text(found.time.seconds), layout_name(found))};
}

// Values that grow by more than four times have a logarithmic axis: most of them were doubled.
SvgScale scale_of(double first, double last) { return last > 4 * first ? SvgScale::logarithmic : SvgScale::linear; }

std::string caption_of(const plan::FoundPlan& found, const std::string& machine) {
  return fmt::format("{} on {}, global batch {} of {} tokens; dots: the best layouts of searches",
                     found.plan.model.name, machine, base::count_text(found.plan.global_batch),
                     base::count_text(found.plan.sequence));
}

}  // namespace

std::string scale_table(plan::Scaled what, const std::vector<plan::ScalePoint>& points) {
  const bool nodes = what == plan::Scaled::nodes;
  const auto* first = first_of(points);
  std::vector<std::vector<std::string>> rows;
  std::string none;
  for (const auto& p : points) {
    if (!p.best.found) {
      none += fmt::format("{}: {}\n", base::counted(p.value, nodes ? "node" : "layer"), p.best.why_none);
      continue;
    }
    const auto& found = *p.best.found;
    rows.push_back({base::count_text(p.value),
                    nodes ? base::count_text(p.ranks) : base::count_text(plan::parameter_count(found.plan.model)),
                    plan::step_seconds_text(found.time.seconds),
                    base::count_rate_text(plan::tokens_a_second(found), "tokens/s"),
                    base::rate_text(model_flops_of(found), "FLOP/s")});
    if (nodes) rows.back().push_back(fmt::format("{:.0f} %", 100 * plan::efficiency(found, *first)));
    rows.back().push_back(layout_name(found));
  }
  std::vector<std::string> header{fmt::format(">{}", plan::name_of(what)), nodes ? ">ranks" : ">parameters", ">a step",
                                  ">all ranks", ">a device"};
  if (nodes) header.emplace_back(">efficiency");
  header.emplace_back("layout");
  return (rows.empty() ? "" : table(header, std::move(rows))) + none;
}

std::string scale_json(plan::Scaled what, const std::vector<plan::ScalePoint>& points) {
  const auto* first = first_of(points);
  std::string out;
  for (const auto& p : points) {
    nlohmann::ordered_json json{{plan::name_of(what), p.value}};
    if (p.best.found) {
      json.update(json_of(*p.best.found));
      if (what == plan::Scaled::nodes) json["efficiency"] = plan::efficiency(*p.best.found, *first);
      else json["parameters"] = plan::parameter_count(p.best.found->plan.model);
    } else {
      json["ranks"] = p.ranks, json["why_none"] = p.best.why_none;
    }
    out += json.dump() + "\n";
  }
  return out;
}

std::string scale_drawing(plan::Scaled what, const std::vector<plan::ScalePoint>& points, const std::string& machine) {
  const bool nodes = what == plan::Scaled::nodes;
  SvgPanel speed, flops;
  SvgCurve predicted, ideal, of_device;
  SvgBand area;
  const auto* first = first_of(points);
  for (const auto& p : points) {
    if (!p.best.found) continue;
    const auto& found = *p.best.found;
    const double x = nodes ? p.ranks : static_cast<double>(p.value), tokens = plan::tokens_a_second(found),
                 tera = model_flops_of(found) / 1e12;
    predicted.points.push_back({x, tokens});
    ideal.points.push_back({x, plan::tokens_a_second(*first) * p.ranks / first->plan.topology.world()});
    of_device.points.push_back({x, tera});
    area.low.push_back({x, 0}), area.high.push_back({x, tera});
    speed.marks.push_back(mark_of(x, tokens, found)), flops.marks.push_back(mark_of(x, tera, found));
  }
  const auto& line = predicted.points;
  const auto across = line.empty() ? SvgScale::linear : scale_of(line.front().x, line.back().x);
  predicted.name = "predicted", ideal.name = "ideal", ideal.dashed = true, ideal.color = 7;
  speed.title = fmt::format("tokens a second over {}", nodes ? "ranks" : "layers");
  speed.x = {nodes ? "ranks" : "layers", across}, speed.y = {"tokens/s", across};
  speed.curves = {std::move(predicted)};
  if (nodes) speed.curves.push_back(std::move(ideal));
  flops.title = "FLOP/s of a device, without what is recomputed";
  flops.x = speed.x, flops.y = {"TFLOP/s", SvgScale::linear};
  flops.curves = {std::move(of_device)}, flops.bands = {std::move(area)};
  return svg_drawing({speed, flops}, first == nullptr ? "nothing fits" : caption_of(*first, machine), {2, 560, 360});
}

std::string frontier_table(const std::vector<plan::FoundPlan>& all) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& found : all)
    rows.push_back({base::size_text(found.bytes), plan::step_seconds_text(found.time.seconds),
                    fmt::format("{:.2f}", found.time.seconds / all.back().time.seconds),
                    base::rate_text(model_flops_of(found), "FLOP/s"), layout_name(found)});
  return table({">memory", ">a step", ">times the best", ">a device", "layout"}, std::move(rows));
}

std::string frontier_json(const std::vector<plan::FoundPlan>& all) {
  std::string out;
  for (const auto& found : all) out += json_of(found).dump() + "\n";
  return out;
}

std::string frontier_drawing(const std::vector<plan::FoundPlan>& all, std::int64_t device_bytes,
                             const std::string& machine) {
  if (all.empty()) return svg_drawing({}, "nothing fits", {});
  const bool small = device_bytes < 1'000'000'000, fast = all.front().time.seconds < 1;
  const double bytes = small ? 1e-6 : 1e-9, seconds = fast ? 1e3 : 1;
  SvgPanel p;
  SvgCurve best, of_more;
  for (const auto& found : all) {
    const double x = bytes * static_cast<double>(found.bytes), y = seconds * found.time.seconds;
    if (!best.points.empty()) best.points.push_back({x, best.points.back().y});  // until there is room for the next one
    best.points.push_back({x, y});
    p.marks.push_back(mark_of(x, y, found));
  }
  best.name = "the best layout that fits";
  const auto end = best.points.back();
  of_more.points = {end, {bytes * static_cast<double>(device_bytes), end.y}};
  of_more.name = fmt::format("no faster layout up to the {} of a device", base::size_text(device_bytes));
  of_more.dashed = true, of_more.color = 7;
  p.title = "time of a step over memory of a rank";
  p.x = {small ? "memory, MB" : "memory, GB", SvgScale::linear};
  p.y = {fast ? "a step, ms" : "a step, s", scale_of(end.y, best.points.front().y)};
  p.curves = {std::move(best), std::move(of_more)};
  return svg_drawing({p}, caption_of(all.front(), machine), {});
}

}  // namespace trainyard::tools
