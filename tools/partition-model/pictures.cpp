// Pictures of steps and searches.
#include "tools/partition-model/pictures.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/frontier.h"
#include "tools/common/progress.h"
#include "tools/common/search_report.h"
#include "tools/common/step_drawing.h"
#include "tools/common/svg_file.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace trainyard::tools {

namespace {

constexpr int frontier_points = 10;

std::vector<std::string> inputs_of(const Options& o) {
  return {o.model, o.profile, o.machine, o.data.empty() ? "" : o.data + "/index.json", o.output};
}

// Returns what is to be printed.
std::string put(const Options& o, const std::string& path, const std::string& picture, std::string text) {
  if (path.empty()) return text;
  if (path == "-") return picture;
  write_drawing(path, picture, inputs_of(o));
  return text;
}

// What would be refused when it is written is refused before a search.
void require_place_of(const std::string& path) {
  if (::access(base::parent_of(path).c_str(), W_OK | X_OK) != 0) base::throw_cannot_write("create", path, errno);
}

}  // namespace

void refuse_pictures(const Options& o) {
  if (!o.output.empty() && o.output != "-") {
    require_place_of(o.output);
    if (!o.force && base::exists(o.output))
      throw base::UsageError(fmt::format("{} exists", base::one_line(o.output)), "--force replaces it");
  }
  if (!o.svg.empty() && o.scale.empty())
    throw base::UsageError("--svg is the picture of --scale, which is not given",
                           "--draw FILE.svg is the picture of a step");
  std::vector<std::string> places{o.output};
  for (const auto& [flag, path] :
       {std::pair{"--svg", o.svg}, std::pair{"--frontier", o.frontier}, std::pair{"--draw", o.draw}}) {
    if (path.empty()) continue;
    if (std::find(places.begin(), places.end(), path) != places.end())
      throw base::UsageError(fmt::format("{} {} is given twice", flag, path), "give each file another name");
    places.push_back(path);
    require_drawing_name(flag, path);
    if (path == "-") continue;
    require_place_of(path);
    base::require_own(path, own_drawings(inputs_of(o)));
  }
}

std::string with_step_picture(const Options& o, const plan::Plan& plan, const plan::Machine& machine,
                              const plan::Execution& execution, std::string text) {
  if (o.draw.empty()) return text;
  const auto passes = plan.batch().micros_of(0) * plan.pipeline * plan.virtual_stages;
  if (passes > most_simulated_passes)
    throw base::UsageError(fmt::format("--draw: a step of {} passes is too long: {} at most", base::count_text(passes),
                                       base::count_text(most_simulated_passes)),
                           "a smaller --global-batch, or a larger --micro-batch");
  plan::StepTimer timer(plan.model, machine, execution);
  const auto time = timer.time(plan);
  return put(o, o.draw, step_drawing(plan, timer.run(plan), time, machine), std::move(text));
}

std::string scale_text(const Options& o, const plan::SearchOf& of) {
  const auto scale = plan::scale_of_text(o.scale, "--scale", of.machine);
  std::vector<plan::ScalePoint> points;
  Progress progress("scale", ProgressMode::automatic);
  for (const auto value : scale.values) {
    progress.show(fmt::format("{} {}, {} of {}", plan::name_of(scale.what), base::count_text(value), points.size() + 1,
                              scale.values.size()),
                  value == scale.values.back() ? Progress::Update::last : Progress::Update::passing);
    points.push_back(plan::scaled(of, scale.what, value));
  }
  const bool nodes = scale.what == plan::Scaled::nodes;
  const auto best = nodes ? points.size() - 1 : 0;  // most nodes, or fewest layers
  if (std::none_of(points.begin(), points.end(), [](const auto& p) { return p.best.found.has_value(); }))
    throw base::InputError(
        fmt::format("--scale {}: nothing fits, not even with {}: {}", o.scale,
                    base::counted(points[best].value, nodes ? "node" : "layer"), points[best].best.why_none),
        of.space.offload ? "more nodes, or a smaller model" : "more nodes, or --offload auto");
  return put(o, o.svg, scale_drawing(scale.what, points, of.machine.name),
             o.json ? scale_json(scale.what, points) : scale_table(scale.what, points));
}

std::string frontier_text(const Options& o, const plan::SearchOf& of) {
  if (of.limits.device_bytes == 0)
    throw base::UsageError("--frontier ends at the memory of a device, and nothing says what it is",
                           "--device-memory 80GB");
  Progress progress("frontier", ProgressMode::automatic);
  const auto found = plan::frontier(of, frontier_points, [&](int done, int most) {
    progress.show(fmt::format("search {} of at most {}", done, most));
  });
  if (found.empty())
    throw base::InputError(plan::best_of(of).why_none, of.space.offload ? "more nodes: --fewest-nodes finds how many"
                                                                        : "--offload auto, or --fewest-nodes");
  return put(o, o.frontier, frontier_drawing(found, of.limits.device_bytes, of.machine.name),
             o.json ? frontier_json(found) : frontier_table(found));
}

}  // namespace trainyard::tools
