// Sizes of calls from units and leases; times from fits.
#include "libtrain/plan/communication_time.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/accesses.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

const CommSeries& series_of(const Profile& profile, const SizedCalls& c, int ranks) {
  for (const auto* group : {"data", "world"})
    for (const auto& s : profile.communication)
      if (s.group == group && s.operation == c.operation && s.ranks == ranks && (s.type == c.type || !adds(c.operation))) return s;
  throw base::InputError(fmt::format("the profile has no {} {} over a data group of {} ranks", c.operation, c.type, ranks),
                         fmt::format("profile-comm --plan PLAN on {} ranks measures what this plan uses", ranks));
}

}  // namespace

std::vector<SizedCalls> step_calls(const Plan& p) {
  const auto shape = p.states();
  const auto& batch = shape.batch;
  const std::int64_t n = batch.data_ranks, w = base::size_of(shape.working), g = base::size_of(shape.gradient);
  if (n == 1) return {};
  const UnitSet set(p.model, batch.data_ranks);
  std::vector<SizedCalls> calls;
  const auto add = [&](const char* operation, base::DType type, std::int64_t bytes, std::int64_t times) {
    const auto same = std::find_if(calls.begin(), calls.end(), [&](const SizedCalls& c) { return c.operation == operation && c.bytes == bytes; });
    if (same != calls.end()) same->calls += times;
    else calls.push_back({operation, base::name_of(type), bytes, times});
  };
  for (const auto& use : set.uses) add(p.reduction == Reduction::fast ? "reduce_scatter" : "ordered_reduce_scatter", shape.gradient, n * set.piece_of(use) * g, batch.turns());
  if (shape.zero == 3) {
    std::int64_t rounds = 0;
    for (std::int64_t turn = 0; turn < batch.turns(); ++turn) rounds += batch.end_micro(batch.group_of(0, turn)) - batch.first_micro(batch.group_of(0, turn));
    for (const auto& use : leases_of(training_accesses(p.model))) add("all_gather", shape.working, n * set.piece_of(use) * w, rounds);
  } else {
    for (const auto& layout : set.layouts) add("all_gather", shape.zero == 0 ? shape.gradient : shape.working, n * layout.piece * (shape.zero == 0 ? g : w), 1);
  }
  return calls;
}

std::vector<CommunicationTime> communication_times(const Plan& p, const Profile& profile) {
  std::vector<CommunicationTime> times;
  for (const auto& c : step_calls(p)) {
    const auto& s = series_of(profile, c, p.topology.size("data"));
    if (times.empty() || times.back().operation != c.operation) times.push_back({c.operation, 0, 0, false});
    auto& t = times.back();
    t.calls += c.calls;
    t.seconds += static_cast<double>(c.calls) * s.fit.seconds(c.bytes);
    t.beyond |= c.bytes < s.points.front().bytes || c.bytes > s.points.back().bytes;
  }
  return times;
}

}  // namespace trainyard::plan
