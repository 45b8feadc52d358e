// Rows from parts, and columns as wide as needed.
#include "libtrain/plan/stage_table.h"

#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/schedule/partition.h"
#include "libtrain/plan/schedule/simulate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace trainyard::plan {

namespace {

constexpr std::int64_t most_simulated = std::int64_t{1} << 17;  // micro-batches times parts: a moment, and some 50 MB
// The limit for comparing a plan with possibly better ones, for micro-batches or items times parts: together a moment.
constexpr std::int64_t most_compared = std::int64_t{1} << 15;

std::string items_text(const std::vector<std::string>& names, const Items& run) {
  std::vector<std::string> out;
  const auto tower = [](const std::string& name) { return name.substr(0, name.rfind('.') + 1); };  // "" of no layer
  for (auto first = run.begin, end = first; first < run.end; first = end) {
    const auto& name = base::at(names, first);
    do ++end;
    while (end < run.end && !tower(name).empty() && tower(base::at(names, end)) == tower(name));
    const auto& last = base::at(names, end - 1);
    out.push_back(end - first == 1 ? name : fmt::format("{}-{}", name, last.substr(tower(last).size())));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

// FLOPs of each part of the model for a token (of a target, in an encoder-decoder model), with what is recomputed, or
// without it.
std::vector<double> flops_of_parts(const Plan& p, const Recomputation& recompute) {
  std::vector<double> out(base::size(p.stages.parts()), 0);
  for (int stage = 0; stage < p.pipeline; ++stage)
    for (const auto& segment : segments(p.part_of_stage(stage), recompute)) {
      const auto lengths = segment.lengths(p.lengths());
      auto flops = segment.kind->training_flops(segment.model, lengths);
      if (segment.recompute == Recompute::layers) flops += segment.kind->recompute_flops(segment.model, lengths);
      base::at(out, p.stages.part(stage, segment.chunk)) +=
          static_cast<double>(segment.times) * flops * segment.rows_per_token(p.lengths());
    }
  return out;
}

// FLOPs of(a segment) for a token, of each part of the model.
template <class Of> std::vector<double> sum_of_parts(const Plan& p, const Of& of) {
  std::vector<double> items;
  for (const auto& segment : segments(p.model))
    items.insert(items.end(), base::size(segment.times), of(segment) * segment.rows_per_token(p.lengths()));
  return part_weights(items, p.stages.boundaries);
}

std::vector<double> of_stages(const Plan& p, const std::vector<double>& of_parts) {
  std::vector<double> out(base::size(p.pipeline), 0);
  for (int stage = 0; stage < p.pipeline; ++stage)
    for (int c = 0; c < p.stages.chunks(); ++c) base::at(out, stage) += base::at(of_parts, p.stages.part(stage, c));
  return out;
}

// Seconds of a step with `micros` micro-batches on one replica; negative: the lists have an error.
double seconds_of(const Plan& p, std::int64_t micros, const std::vector<PartCosts>& costs) {
  std::vector<std::vector<Action>> lists;
  for (int stage = 0; stage < p.pipeline; ++stage)
    lists.push_back(step_actions({micros, 1, 1, 1}, 0, pipeline_of(p, stage, {micros, 1, 1, 1}), stage));
  const auto out = simulate(lists, p.virtual_stages, costs, 0, micros);
  return out.problem.empty() ? out.seconds : -1;
}

std::string percent(double fraction) { return fmt::format("{:.0f} %", 100 * fraction); }

using Cells = std::vector<std::string>;

// Columns from `right` on are flush right, except the last.
std::string lines(const std::vector<Cells>& rows, std::size_t right) {
  std::string out;
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += c >= right && c + 1 < row.size() ? fmt::format("  {:>{}}", row[c], widths[c])
                                               : fmt::format("  {:<{}}", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

// Stages are rows, replicas are columns. Of many replicas it shows the first and the last.
std::string rank_map(const Plan& p) {
  const int replicas = p.topology.size(Axis::data);
  std::vector<int> shown;
  for (int r = 0; r < replicas; ++r)
    if (replicas <= 4 || r < 2 || r + 1 == replicas) shown.push_back(r);
  const auto cells = [&](const std::string& name, const auto& cell) {
    Cells out{name};
    for (std::size_t i = 0; i < shown.size(); ++i) {
      if (i > 0 && shown[i] > shown[i - 1] + 1) out.emplace_back("...");
      out.push_back(cell(shown[i]));
    }
    return out;
  };
  std::vector<Cells> rows{cells("ranks", [](int r) { return fmt::format("replica {}", r); })};
  for (int stage = 0; stage < p.pipeline; ++stage)
    rows.push_back(cells(fmt::format("stage {}", stage), [&](int replica) {
      const int first = p.topology.rank_of({{Axis::pipe, stage}, {Axis::data, replica}});
      return p.tensor == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + p.tensor - 1);
    }));
  return lines(rows, rows.front().size());
}

}  // namespace

std::vector<StageRow> stage_rows(const Plan& p) {
  const auto names = item_names(p.model);
  const auto flops = of_stages(p, flops_of_parts(p, p.recompute));
  const auto all = std::accumulate(flops.begin(), flops.end(), 0.0);
  std::vector<StageRow> out;
  for (int stage = 0; stage < p.pipeline; ++stage) {
    const auto part = p.part_of_stage(stage);
    const auto s = base::size(stage);
    StageRow row{{}, 0, flops[s] / all, slots_of_stage(p, stage), p.stage_memory[s]};
    for (const auto& chunk : part.chunks)
      row.items += fmt::format("{}{}", row.items.empty() ? "" : " + ", items_text(names, chunk));
    for (const auto& flat_group : flat_groups(part))
      for (const auto& parameter : flat_group.parameters) row.parameters += parameter.count();
    out.push_back(std::move(row));
  }
  return out;
}

nlohmann::ordered_json report_json(const Plan& p) {
  nlohmann::ordered_json out{{"rank_total_bytes", p.memory.total()}};
  if (p.memory.on_host > 0) out["rank_host_bytes"] = p.memory.on_host;
  if (p.pipeline == 1) return out;
  out["stages"] = nlohmann::ordered_json::array();
  for (const auto& row : stage_rows(p))
    out["stages"].push_back({{"items", row.items},
                             {"parameters", row.parameters},
                             {"step_flops", row.flops},
                             {"slots", row.slots},
                             {"rank_bytes", {{"in_arenas", row.memory.arenas()}, {"total", row.memory.total()}}}});
  if (const auto idle = idle_of(p)) out["idle"] = {{"fraction", idle->fraction}, {"of_imbalance", idle->of_imbalance}};
  return out;
}

std::optional<Idle> idle_of(const Plan& p) {
  if (p.pipeline == 1) return {};
  const auto all = flops_of_parts(p, p.recompute),
             forward =
                 sum_of_parts(p, [&](const auto&s) { return s.kind->forward_flops(s.model, s.lengths(p.lengths())); }),
             apart =
                 sum_of_parts(p, [&](const auto&s) { return s.kind->apart_flops(s.model, s.lengths(p.lengths())); });
  std::vector<PartCosts> costs;
  for (std::size_t i = 0; i < all.size(); ++i)
    costs.push_back({forward[i], all[i] - forward[i] - apart[i], apart[i], 0});
  const auto micros = p.batch().micros_of(0), at_most = most_simulated / p.stages.parts();
  const auto half = at_most / 2 / p.pipeline * p.pipeline;
  double seconds = 0;
  if (micros <= at_most) {
    seconds = seconds_of(p, micros, costs);
  } else {
    if (half < 2 * p.pipeline) return {};
    const auto shorter = seconds_of(p, half, costs), longer = seconds_of(p, 2 * half, costs);
    seconds = longer + (longer - shorter) / static_cast<double>(half) * static_cast<double>(micros - 2 * half);
  }
  if (!(seconds > 0)) return {};
  const auto stages = of_stages(p, all);
  const auto busy = std::accumulate(stages.begin(), stages.end(), 0.0), ranks = static_cast<double>(p.pipeline);
  return Idle{1 - static_cast<double>(micros) * busy / (seconds * ranks),
              1 - busy / (ranks * *std::max_element(stages.begin(), stages.end()))};
}

namespace {

// Single changes that may reduce waiting. A change that makes an illegal plan is skipped.
constexpr std::array<void (*)(Plan&), 7> changes{
    [](Plan& p) { p.global_batch *= 2; },
    [](Plan& p) { p.accumulation_order = AccumulationOrder::depth; },
    [](Plan& p) { p.pipeline_schedule = PipelineSchedule::one_f_one_b, p.virtual_stages = 1; },
    [](Plan& p) { p.pipeline_schedule = PipelineSchedule::interleaved, p.virtual_stages *= 2; },
    [](Plan& p) { p.pipeline_schedule = PipelineSchedule::zero_bubble, p.virtual_stages = 1; },
    [](Plan& p) { p.partition = "flops"; },
    [](Plan& p) { p.partition = "uniform"; },
};

std::string flags_of_change(Plan from, Plan to) {
  std::vector<std::string> out;
  const auto before = fields_of(from);
  for (std::size_t i = 0; const auto& f : fields_of(to))
    if (before[i++].get() != f.get()) out.push_back(fmt::format("{} {}", base::setting_name(f.name), f.get()));
  return fmt::format("{}", fmt::join(out, " "));
}

}  // namespace

std::string idle_text(const Plan& p) {
  constexpr double visible = 0.005;  // share of a step
  const auto idle = idle_of(p);
  if (!idle) return {};
  std::vector<std::string> smaller;
  const auto parts = p.stages.parts();
  const bool comparable = parts <= most_compared / std::max(item_count(p.model), p.batch().micros_of(0));
  for (const auto change : changes) {
    if (!comparable) break;
    auto other = p;
    change(other);
    const auto flags = flags_of_change(p, other);
    if (flags.empty() || !decision_problems(other).empty()) continue;
    other.stages = stages_of(other);
    const auto then = idle_of(other);
    if (then && then->fraction < idle->fraction && percent(then->fraction) != percent(idle->fraction))
      smaller.push_back(fmt::format("{} makes it {}", flags, percent(then->fraction)));
  }
  auto out = fmt::format("idle {} of a step, if communication took no time{}{}", percent(idle->fraction),
                         smaller.empty() ? "" : ": ", fmt::join(smaller, ", "));
  if (idle->of_imbalance >= visible)
    out += fmt::format("; {} remain with any number of micro-batches, because stages differ in work",
                       percent(idle->of_imbalance));
  if (p.pipeline_schedule == PipelineSchedule::interleaved && p.virtual_stages == 1)
    out += base::text("; interleaved with $virtual-stages 1 is the same as 1f1b");
  return out;
}

std::string whose_memory(const Plan& p) {
  const auto most = std::find(p.stage_memory.begin(), p.stage_memory.end(), p.memory);
  return fmt::format("a rank of stage {}, which needs most", most - p.stage_memory.begin());
}

std::string stages_text(const Plan& p, base::Sizes sizes) {
  if (p.pipeline == 1) return {};
  const auto rows = stage_rows(p);
  const auto most_memory = std::max_element(
      rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.memory.total() < b.memory.total(); });
  const auto most_flops =
      std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.flops < b.flops; });
  std::vector<Cells> table{{"stage", "items", "parameters", "FLOPs", "in flight", "in arenas", "total", ""}};
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    std::vector<std::string> most;
    if (row == most_memory) most.emplace_back("memory");
    if (row == most_flops) most.emplace_back("FLOPs");
    table.push_back({fmt::format("{}", row - rows.begin()), row->items, base::count_text(row->parameters),
                     fmt::format("{:.1f} %", 100 * row->flops), fmt::format("{}", fmt::join(row->slots, "+")),
                     base::size_text(row->memory.arenas(), sizes), base::size_text(row->memory.total(), sizes),
                     most.empty() ? "" : fmt::format("most {}", fmt::join(most, " and "))});
  }
  auto out = fmt::format("{}\n{}", lines(table, 2), rank_map(p));
  if (const auto idle = idle_text(p); !idle.empty()) out += fmt::format("\n  {}\n", idle);
  return out;
}

}  // namespace trainyard::plan
