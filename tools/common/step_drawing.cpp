// Makes the panels of a step.
#include "tools/common/step_drawing.h"

#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/layout_text.h"
#include "tools/common/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace trainyard::tools {

namespace {

constexpr std::size_t most_passes_drawn = 2000;
constexpr int most_stages_drawn = 64, most_nodes_drawn = 32;

using Kind = plan::Action::Kind;

// Row 0 is at the top.
double row_place(int row, int rows) { return rows - 1 - row; }

// Neighbouring virtual stages have different colors, as in drawings of measured steps.
int color_of(const plan::SimulatedWork& w) {
  const bool odd = w.chunk % 2 == 1;
  return w.kind == Kind::forward ? (odd ? 6 : 0) : w.kind == Kind::weight_gradients ? 2 : odd ? 4 : 1;
}
std::string key_of(const plan::SimulatedWork& w) {
  const char* name = w.kind == Kind::forward            ? "forward"
                     : w.kind == Kind::backward         ? "backward"
                     : w.kind == Kind::weight_gradients ? "weight gradients"
                                                        : "input gradients";
  return w.kind != Kind::weight_gradients && w.chunk % 2 == 1 ? fmt::format("{}, odd virtual stages", name) : name;
}

// What follows the passes, where nothing hides it.
struct EndPart {
  const char* name;
  double plan::StepTime::*seconds;
  int color;
};
constexpr std::array end_parts = {EndPart{"data-parallel calls", &plan::StepTime::data, 3},
                                  EndPart{"optimizer", &plan::StepTime::update, 5},
                                  EndPart{"offload", &plan::StepTime::moving, 7}};

// When the first pass begins that is not drawn.
double end_of_drawn(const plan::Simulated& run, int rows) {
  std::vector<double> begins;
  for (int stage = 0; stage < rows; ++stage)
    for (const auto& w : base::at(run.stages, stage).work) begins.push_back(w.begin);
  if (begins.size() <= most_passes_drawn) return run.seconds;
  const auto nth = begins.begin() + most_passes_drawn;
  std::nth_element(begins.begin(), nth, begins.end());
  return *nth;
}

SvgPanel passes_panel(const plan::Plan& plan, const plan::Simulated& run, const plan::StepTime& time) {
  const int rows = std::min(plan.pipeline, most_stages_drawn);
  const double end = end_of_drawn(run, rows);
  const bool whole = end == run.seconds;
  const double shown = whole ? time.seconds : end;
  const double unit = shown < 1e-3 ? 1e6 : shown < 1 ? 1e3 : 1;
  SvgPanel p;
  p.x = {fmt::format("time, {}; numbers: micro-batches, blank: waiting", unit == 1     ? "s"
                                                                         : unit == 1e3 ? "ms"
                                                                                       : "us"),
         SvgScale::linear};
  p.y = {"pipeline stage", SvgScale::linear};
  p.title = whole ? fmt::format("a step of {}", plan::step_seconds_text(time.seconds))
                  : fmt::format("the first {} of a step of {}", plan::step_seconds_text(end),
                                plan::step_seconds_text(time.seconds));
  if (plan.pipeline > 1) p.title += fmt::format(", stages idle {:.0f} % of the passes", 100 * run.idle_fraction());
  if (rows < plan.pipeline) p.title += fmt::format("; {} of {} stages", rows, plan.pipeline);
  std::map<int, std::string> keys;
  for (int stage = 0; stage < rows; ++stage) {
    p.y.names.push_back(std::to_string(stage));
    const double y = row_place(stage, rows);
    for (const auto& w : base::at(run.stages, stage).work) {
      if (!whole && w.begin >= end) break;
      keys.emplace(color_of(w), key_of(w));
      p.bars.push_back({unit * w.begin, unit * std::min(w.end, end), y, 0.8, color_of(w), std::to_string(w.micro),
                        fmt::format("stage {}{}, {} of micro-batch {}: {}", stage,
                                    plan.virtual_stages > 1 ? fmt::format(", virtual stage {}", w.chunk) : "",
                                    plan::name_of(w.kind), w.micro, plan::step_seconds_text(w.end - w.begin))});
    }
    double begin = run.seconds;
    for (const auto& part : end_parts) {
      const double seconds = time.*part.seconds;
      if (!whole || seconds <= 0) continue;
      p.bars.push_back({unit * begin, unit * (begin + seconds), y, 0.8, part.color, "",
                        fmt::format("{}: {}", part.name, plan::step_seconds_text(seconds))});
      begin += seconds;
    }
  }
  for (const int color : {0, 6, 1, 4, 2})
    if (const auto key = keys.find(color); key != keys.end()) p.keys.push_back({key->second, color});
  for (const auto& part : end_parts)
    if (whole && time.*part.seconds > 0) p.keys.push_back({part.name, part.color});
  return p;
}

struct MemoryPart {
  std::string name;
  std::int64_t bytes = 0;
};
// Of the memory where the rank computes. Parts that are small in most plans are one.
std::vector<MemoryPart> parts_of(const plan::MemoryBytes& memory, base::DeviceKind device) {
  using Category = base::MemoryCategory;
  std::vector<MemoryPart> out;
  MemoryPart buffers{"buffers and workspace", 0};
  for (const auto& entry : base::memory_categories) {
    if (device != base::DeviceKind::cpu && entry.place == base::MemoryPlace::host) continue;
    const auto bytes = memory.categories[entry.category];
    if (entry.category <= Category::activations) out.push_back({entry.label, bytes});
    else buffers.bytes += bytes;
  }
  out.push_back(std::move(buffers));
  out.push_back({"reserve", memory.reserve});
  return out;
}

SvgPanel memory_panel(const plan::Plan& plan) {
  const int rows = std::min(plan.pipeline, most_stages_drawn);
  std::vector<plan::MemoryBytes> memory;
  std::int64_t most = plan.device_memory;
  for (int stage = 0; stage < rows; ++stage) {
    memory.push_back(plan::memory_of_stage(plan, stage));
    most = std::max(most, memory.back().total());
  }
  const bool small = most < 1'000'000'000;
  const double unit = small ? 1e-6 : 1e-9;
  SvgPanel p;
  p.title = "memory of a rank of each stage";
  p.x = {small ? "MB" : "GB", SvgScale::linear};
  p.y = {"pipeline stage", SvgScale::linear};
  std::vector<bool> seen;
  for (int stage = 0; stage < rows; ++stage) {
    p.y.names.push_back(std::to_string(stage));
    const auto parts = parts_of(base::at(memory, stage), plan.device);
    seen.resize(parts.size());
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].bytes <= 0) continue;
      const auto end = begin + parts[i].bytes;
      p.bars.push_back({unit * static_cast<double>(begin), unit * static_cast<double>(end), row_place(stage, rows), 0.7,
                        static_cast<int>(i), base::size_text(parts[i].bytes),
                        fmt::format("stage {}, {}: {}", stage, parts[i].name, base::size_text(parts[i].bytes))});
      if (!seen[i]) p.keys.push_back({parts[i].name, static_cast<int>(i)});
      seen[i] = true;
      begin = end;
    }
  }
  std::sort(p.keys.begin(), p.keys.end(), [](const auto& a, const auto& b) { return a.color < b.color; });
  if (plan.device_memory > 0) {
    const double limit = unit * static_cast<double>(plan.device_memory);
    p.curves.push_back({fmt::format("a device has {}", base::size_text(plan.device_memory)),
                        {{limit, -0.5}, {limit, rows - 0.5}},
                        1,
                        true});
  }
  return p;
}

SvgPanel nodes_panel(const plan::Plan& plan, const plan::Machine& machine) {
  const int world = plan.topology.world(), each = machine.devices_per_node, nodes = (world + each - 1) / each,
            rows = std::clamp(static_cast<int>(most_passes_drawn) / each, 1, std::min(nodes, most_nodes_drawn));
  const bool many = plan.pipeline > 1;
  SvgPanel p;
  p.title = fmt::format("ranks of {}: {}", base::counted(nodes, "node"),
                        many ? "s pipeline stage (its color), d replica, t tensor-parallel rank"
                             : "d replica (its color), t tensor-parallel rank");
  if (rows < nodes) p.title += fmt::format("; the first {}", rows);
  p.x = {"device of the node", SvgScale::linear};
  p.y = {"first rank of a node", SvgScale::linear};
  p.bands.push_back({{{8, 0}}, {}});  // nothing to see: cells of few devices a node do not fill the width
  for (int node = 0; node < rows; ++node) {
    const int first = node * each, last = std::min(world, first + each) - 1;
    p.y.names.push_back(std::to_string(first));
    for (int rank = first; rank <= last; ++rank) {
      const int stage = plan.stage_of(rank), replica = plan.topology.coordinate(rank, plan::Axis::data),
                share = plan.topology.coordinate(rank, plan::Axis::tensor);
      const auto place =
          many ? fmt::format("s{} d{} t{}", stage, replica, share) : fmt::format("d{} t{}", replica, share);
      const double x = rank - first;
      SvgBar bar{
          x,
          x + 1,
          row_place(node, rows),
          0.8,
          many ? stage : replica,
          place,
          fmt::format("rank {}: pipeline stage {}, replica {}, tensor-parallel rank {}", rank, stage, replica, share)};
      if (replica % 2 == 1) bar.opacity = 0.45;
      p.bars.push_back(std::move(bar));
    }
  }
  return p;
}

// Rows of one height, lower ones where there are many. Text inside of these would cover other rows.
void set_height(SvgPanel& panel) {
  constexpr double beside_rows = 120, text_row = 13;
  const auto rows = static_cast<double>(panel.y.names.size());
  panel.height = std::clamp(beside_rows + (rows > 8 ? 16 : 24) * rows, 170.0, 640.0);
  if ((panel.height - beside_rows) / rows < text_row)
    for (auto& bar : panel.bars) bar.text.clear();
}

}  // namespace

std::string step_drawing(const plan::Plan& plan, const plan::Simulated& run, const plan::StepTime& time,
                         const plan::Machine& machine) {
  std::vector<SvgPanel> panels{passes_panel(plan, run, time), memory_panel(plan), nodes_panel(plan, machine)};
  for (auto& p : panels) set_height(p);
  const auto layout = plan::layout_text(plan);
  return svg_drawing(panels,
                     fmt::format("{} on {} of {}{}{}", plan.model.name, base::counted(plan.topology.world(), "rank"),
                                 machine.name, layout.empty() ? "" : ": ", layout),
                     {1, 980});
}

}  // namespace trainyard::tools
