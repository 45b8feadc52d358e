// Makes the tables and JSON objects of reshard-checkpoint.
#include "tools/reshard-checkpoint/report.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/plan/grid/topology.h"
#include "tools/common/table.h"

#include <algorithm>
#include <cmath>

namespace trainyard::reshard {

using nlohmann::ordered_json;

namespace {

double rate_of(const Made& m) { return static_cast<double>(m.result.bytes_written) / std::max(m.seconds, 1e-9); }

int size_of(plan::Axis along, const Made& m) {
  for (const auto& axis : m.result.manifest.axes)
    if (axis.axis == plan::name_of(along)) return axis.size;
  return 1;
}

// The grid of ranks, such as " (2 stages x 4 x 2 tensor)" or " (6, experts over 2)"; "" if ranks are only
// data-parallel.
std::string grid_text(const Made& m) {
  const auto stages = size_of(plan::Axis::pipe, m), tensor = size_of(plan::Axis::tensor, m),
             experts = checkpoint::expert_parts_of(m.result.manifest);
  if (stages == 1 && tensor == 1 && experts == 1) return {};
  return fmt::format(" ({}{}{}{})", stages > 1 ? fmt::format("{} stages x ", stages) : "",
                     m.result.ranks / tensor / stages, tensor > 1 ? fmt::format(" x {} tensor", tensor) : "",
                     experts > 1 ? fmt::format(", experts over {}", experts) : "");
}

// A JSON number; null if not finite, because JSON has no such numbers.
ordered_json number(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

std::string place_text(const checkpoint::TensorDifference& t, std::int64_t element) {
  return fmt::format("[{}]", fmt::join(checkpoint::index_of(t.shape, element), ", "));
}

ordered_json at(const checkpoint::TensorDifference& t, double value, std::int64_t element) {
  return {{"value", number(value)}, {"at", checkpoint::index_of(t.shape, element)}};
}

}  // namespace

ordered_json json_of(const Made& m) {
  const auto& state = m.result.manifest.state;
  return {{"output", m.output},
          {"sources", m.sources},
          {"step", state.step},
          {"dtype", base::name_of(state.dtype)},
          {"contents", state.contents == checkpoint::Contents::model ? "model" : "all"},
          {"source_ranks", m.source_ranks},
          {"ranks", m.result.ranks},
          {"tensor", size_of(plan::Axis::tensor, m)},
          {"expert_parallel", checkpoint::expert_parts_of(m.result.manifest)},
          {"pipeline", size_of(plan::Axis::pipe, m)},
          {"kept_rank_files", m.result.kept},
          {"bytes_read", m.result.bytes_read},
          {"bytes_written", m.result.bytes_written},
          {"tensors", m.result.manifest.tensors.size()},
          {"seconds", m.seconds},
          {"bytes_per_second", rate_of(m)}};
}

std::string text_of(const Made& m) {
  const auto& r = m.result;
  auto text = fmt::format("{}step {} of {} on {}: {} written in {} ({})",
                          r.manifest.state.contents == checkpoint::Contents::model ? "the weights alone of " : "",
                          r.manifest.state.step, base::counted(m.source_ranks, "rank"),
                          base::counted(r.ranks, "rank") + grid_text(m), base::size_text(r.bytes_written),
                          base::duration_text(m.seconds), base::rate_text(rate_of(m), "B/s"));
  if (r.kept > 0) text += fmt::format("; {} of an earlier start kept", base::counted(r.kept, "rank file"));
  return text + fmt::format("; the fingerprints of {} are right\n",
                            base::counted(static_cast<std::int64_t>(r.manifest.tensors.size()), "tensor"));
}

bool Comparison::passes(const checkpoint::TensorDifference& t) const {
  return t.equal() || (t.problem.empty() && tolerance && t.largest_relative <= *tolerance);
}

std::int64_t Comparison::failures() const {
  return std::count_if(tensors.begin(), tensors.end(), [&](const auto& t) { return !passes(t); });
}

ordered_json json_of(const Comparison& c) {
  auto list = ordered_json::array();
  for (const auto& t : c.tensors) {
    ordered_json entry{{"path", t.path}, {"shape", t.shape}, {"equal", t.equal()}, {"passes", c.passes(t)}};
    if (t.problem.empty()) {
      entry["different"] = t.different;
      entry["largest_absolute"] = at(t, t.largest_absolute, t.absolute_at);
      entry["largest_relative"] = at(t, t.largest_relative, t.relative_at);
      entry["cosine"] = number(t.cosine);
    } else {
      entry["problem"] = t.problem;
    }
    list.push_back(std::move(entry));
  }
  auto reasons = ordered_json::array();
  for (const auto& r : c.reasons) reasons.push_back({{"name", r.name}, {"first", r.first}, {"second", r.second}});
  return {{"first", c.first},
          {"second", c.second},
          {"reasons", reasons},
          {"tolerance", c.tolerance ? ordered_json(*c.tolerance) : ordered_json(nullptr)},
          {"equal", std::all_of(c.tensors.begin(), c.tensors.end(), [](const auto& t) { return t.equal(); })},
          {"passes", c.failures() == 0},
          {"tensors", list}};
}

std::string text_of(const Comparison& c) {
  std::vector<std::vector<std::string>> rows;
  std::string problems;
  std::int64_t equal = 0;
  for (const auto& t : c.tensors) {
    if (t.equal()) ++equal;
    else if (!t.problem.empty()) problems += fmt::format("{}: {}\n", base::one_line(t.path), t.problem);
    else
      rows.push_back({t.path, fmt::format("{} of {}", t.different, t.elements), base::number_text(t.largest_absolute),
                      place_text(t, t.absolute_at), base::number_text(t.largest_relative), place_text(t, t.relative_at),
                      fmt::format("{:.9f}", t.cosine)});
  }
  std::string text;
  for (const auto& r : c.reasons) text += base::one_line(engine::text_of(r, "the first", "the second")) + "\n";
  if (!text.empty()) text += "\n";
  if (!rows.empty())
    text +=
        tools::table({"tensor", ">different", ">largest |a - b|", "at", ">relative", "at", ">cosine"}, std::move(rows));
  return text + problems +
         fmt::format("{} of {} equal, bit for bit{}\n", equal,
                     base::counted(static_cast<std::int64_t>(c.tensors.size()), "tensor"),
                     c.tolerance ? fmt::format("; {} differ by more than {}", c.failures(), *c.tolerance) : "");
}

}  // namespace trainyard::reshard
