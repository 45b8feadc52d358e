// Converts spans to rows, and computes the ideal from the action lists in them.
#include "tools/inspect/timeline.h"

#include "libtrain/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace trainyard::inspect {

namespace {

using Action = plan::Action;
using Block = TimelineBlock;

Block::Kind kind_of(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::forward: return Block::Kind::forward;
    case Action::Kind::backward: return Block::Kind::backward;
    case Action::Kind::input_gradients: return Block::Kind::input_gradients;
    case Action::Kind::weight_gradients: return Block::Kind::weight_gradients;
    default: return Block::Kind::other;
  }
}
bool is_pass_kind(Block::Kind kind) { return kind != Block::Kind::other; }

// Merges times: sorted and without overlaps.
std::vector<TimelineTimes> joined(std::vector<TimelineTimes> times) {
  std::sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<TimelineTimes> out;
  for (const auto& t : times)
    if (!out.empty() && t.begin <= out.back().end) out.back().end = std::max(out.back().end, t.end);
    else out.push_back(t);
  return out;
}

std::vector<const TracedSpan*> actions_of(const TracedRank& rank, std::int64_t step) {
  std::vector<const TracedSpan*> out;
  for (const auto& s : rank.computing()->spans)
    if (s.kind == "action" && s.step == step) out.push_back(&s);
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->place < b->place;
  });
  return out;
}

// Adds the blocks of an action: its parts between the waits.
void add_blocks(TimelineRow& row, const TracedSpan& action, const std::vector<TimelineTimes>& waits, double origin) {
  Block block{kind_of(action.action.kind),
              plan::name_of(action.action.kind),
              action.action.micro,
              action.action.chunk,
              action.begin,
              action.end};
  if (is_pass_kind(block.kind) && block.micro < 0) block.kind = Block::Kind::other;  // empty micro-batch
  double from = action.begin;
  const auto until = [&](double end) {
    if (end <= from) return;
    row.blocks.push_back(block);
    row.blocks.back().begin = from - origin, row.blocks.back().end = end - origin;
    (is_pass_kind(block.kind) ? row.passes : row.other) += end - from;
  };
  auto wait = std::lower_bound(waits.begin(), waits.end(), action.begin,
                               [](const TimelineTimes& w, double begin) { return w.end < begin; });
  for (; wait != waits.end() && wait->begin < action.end; ++wait) {
    until(std::min(wait->begin, action.end));
    from = std::max(from, std::min(wait->end, action.end));
    row.waiting += std::min(wait->end, action.end) - std::max(wait->begin, action.begin);
  }
  until(action.end);
}

TimelineRow row_of_rank(const TracedRank& rank, int number, std::int64_t step, double begin, double end) {
  TimelineRow row;
  row.name = fmt::format("rank {}", number);
  std::vector<TimelineTimes> waits, calls;
  const auto inside = [&](const TracedSpan& s) { return s.end > begin && s.begin < end; };
  for (const auto& s : rank.computing()->spans)
    if (s.kind == "wait" && inside(s)) waits.push_back({s.begin, s.end});
  waits = joined(std::move(waits));
  for (const auto* action : actions_of(rank, step)) add_blocks(row, *action, waits, begin);
  for (const auto& [tid, thread] : rank.threads)
    for (const auto& s : thread.spans)
      if (s.kind == "collective" && inside(s))
        calls.push_back({std::max(0.0, s.begin - begin), std::min(end, s.end) - begin});
  row.communication = joined(std::move(calls));
  for (const auto& t : row.communication) row.communicating += t.end - t.begin;
  return row;
}

// For each part the mean time over its micro-batches and ranks, without waits.
std::vector<plan::PartCosts> costs_of(const Trace& trace, const Timeline& t) {
  struct Sum {
    double seconds = 0;
    std::map<std::pair<std::size_t, std::int64_t>, bool> computed;  // by rank and micro-batch
    double mean() const { return computed.empty() ? 0 : seconds / static_cast<double>(computed.size()); }
  };
  const auto parts = static_cast<std::size_t>(trace.stages * trace.chunks);
  std::vector<std::map<Block::Kind, Sum>> sums(parts);
  const auto of_stage = trace.data * trace.tensor;
  for (std::size_t r = 0; r < t.measured.size(); ++r)
    for (const auto& b : t.measured[r].blocks) {
      if (!is_pass_kind(b.kind) || b.chunk < 0) continue;
      const auto stage = static_cast<std::int64_t>(r) / of_stage;
      auto& sum = sums[static_cast<std::size_t>(b.chunk * trace.stages + stage)][b.kind];
      sum.seconds += b.end - b.begin;
      sum.computed[{r, b.micro}] = true;
    }
  std::vector<plan::PartCosts> costs(parts);
  for (std::size_t p = 0; p < parts; ++p) {
    auto& of = sums[p];
    costs[p].forward = of[Block::Kind::forward].mean();
    const double both = of[Block::Kind::backward].mean();
    costs[p].input_gradients = both > 0 ? both / 2 : of[Block::Kind::input_gradients].mean();
    costs[p].weight_gradients = both > 0 ? both / 2 : of[Block::Kind::weight_gradients].mean();
  }
  return costs;
}

// Simulates each pipeline by itself: the ranks of one data and tensor coordinate.
void add_ideal(const Trace& trace, Timeline& t) {
  t.costs = costs_of(trace, t);
  const auto of_stage = trace.data * trace.tensor;
  t.ideal.resize(trace.ranks.size());
  double busy = 0;
  for (std::int64_t pipeline = 0; pipeline < of_stage; ++pipeline) {
    std::vector<std::vector<Action>> lists;
    std::int64_t micros = 0;
    for (std::int64_t stage = 0; stage < trace.stages; ++stage) {
      auto& list = lists.emplace_back();
      for (const auto* s : actions_of(trace.ranks[static_cast<std::size_t>(stage * of_stage + pipeline)], t.step)) {
        list.push_back(s->action);
        if (stage == 0 && s->action.kind == Action::Kind::forward && s->action.chunk == 0 && s->action.block <= 0 &&
            s->action.micro >= 0)
          ++micros;
      }
    }
    const auto simulated = plan::simulate(lists, static_cast<int>(trace.chunks), t.costs, 0, micros);
    if (!simulated.problem.empty()) {
      t.problem = simulated.problem;
      t.ideal.clear();
      return;
    }
    t.ideal_seconds = std::max(t.ideal_seconds, simulated.seconds);
    for (std::int64_t stage = 0; stage < trace.stages; ++stage) {
      const auto rank = static_cast<std::size_t>(stage * of_stage + pipeline);
      auto& row = t.ideal[rank];
      row.name = fmt::format("rank {}", rank);
      for (const auto& w : simulated.stages[static_cast<std::size_t>(stage)].work)
        row.blocks.push_back({kind_of(w.kind), plan::name_of(w.kind), w.micro, w.chunk, w.begin, w.end});
      row.passes = simulated.stages[static_cast<std::size_t>(stage)].busy;
      busy += row.passes;
    }
  }
  if (t.ideal_seconds > 0)
    t.ideal_idle_fraction = 1 - busy / (t.ideal_seconds * static_cast<double>(trace.ranks.size()));
}

// Steps as text: "step 3", "steps 3 to 5", or "4 of steps 3 to 9".
std::string steps_text(const std::vector<std::int64_t>& steps) {
  const auto first = steps.front(), last = steps.back();
  if (first == last) return fmt::format("step {}", first);
  const bool all = last - first + 1 == static_cast<std::int64_t>(steps.size());
  return fmt::format("{}steps {} to {}", all ? "" : fmt::format("{} of ", steps.size()), first, last);
}

std::int64_t chosen(const Trace& trace, std::int64_t step, const std::string& file) {
  const auto full = trace.full_steps();
  if (full.empty())
    throw base::InputError(
        fmt::format("{} holds no step from beginning to end of all {} ranks", file, trace.ranks.size()),
        "trace other steps with --trace-steps");
  if (step == 0) return full.back();
  if (std::find(full.begin(), full.end(), step) == full.end())
    throw base::UsageError(fmt::format("--step {}: {} does not hold it from beginning to end", step, file),
                           fmt::format("it holds {}", steps_text(full)));
  return step;
}

}  // namespace

double Timeline::idle_fraction() const {
  double busy = 0;
  for (const auto& row : measured) busy += row.passes;
  const double all = passes_seconds * static_cast<double>(measured.size());
  return all > 0 ? 1 - busy / all : 0;
}

Timeline timeline_of(const Trace& trace, std::int64_t step, const std::string& file) {
  Timeline t;
  t.step = chosen(trace, step, file);
  double begin = std::numeric_limits<double>::infinity(), end = -begin, first = begin, last = -begin;
  for (const auto& rank : trace.ranks)
    for (const auto* s : actions_of(rank, t.step)) {
      begin = std::min(begin, s->begin), end = std::max(end, s->end);
      if (!is_pass_kind(kind_of(s->action.kind)) || s->action.micro < 0) continue;
      first = std::min(first, s->begin), last = std::max(last, s->end);
    }
  t.seconds = end - begin;
  if (last > first) t.passes_begin = first - begin, t.passes_seconds = last - first;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r)
    t.measured.push_back(row_of_rank(trace.ranks[r], static_cast<int>(r), t.step, begin, end));
  if (trace.stages == 1)
    for (const auto* s : actions_of(trace.ranks[0], t.step))
      if (s->action.kind == Action::Kind::forward && s->action.round == static_cast<std::int64_t>(t.rounds.size()))
        t.rounds.push_back(s->begin - begin);
  add_ideal(trace, t);
  return t;
}

}  // namespace trainyard::inspect
