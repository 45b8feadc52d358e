// Sizes of calls from units and leases; times from fits.
#include "libtrain/plan/communication_time.h"

#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

const CommSeries& series_of(const Profile& profile, const SizedCalls& c) {
  for (const auto* group : {c.group.c_str(), "world"})
    for (const auto& s : profile.communication)
      if (s.group == group && s.operation == c.operation && s.ranks == c.ranks &&
          (s.type == base::name_of(c.type) || !adds(c.operation)))
        return s;
  throw base::InputError(fmt::format("the profile has no {} {} over a {} group of {} ranks", c.operation,
                                     base::name_of(c.type), c.group, c.ranks),
                         fmt::format("profile-comm --plan PLAN on {} ranks measures what this plan uses", c.ranks));
}

}  // namespace

std::vector<SizedCalls> step_calls(const Plan& p) {
  std::vector<SizedCalls> out;
  if (p.topology.size(Axis::data) == 1) return out;
  for (auto& c : step_calls(p.model, p.states(), p.reduction, 0)) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const SizedCalls& o) {
      return o.operation == c.operation && o.group == c.group && o.bytes == c.bytes;
    });
    if (same == out.end()) out.push_back(std::move(c));
    else same->calls += c.calls, same->sending += c.sending;
  }
  return out;
}

std::vector<CommunicationTime> communication_times(const Plan& p, const Profile& profile) {
  std::vector<CommunicationTime> times;
  for (const auto& c : step_calls(p)) {
    const auto& s = series_of(profile, c);
    if (times.empty() || times.back().operation != c.operation) times.push_back({c.operation, 0, 0, false});
    auto& t = times.back();
    t.calls += c.calls;
    t.seconds += static_cast<double>(c.calls) * s.fit.seconds(c.bytes);
    t.beyond |= c.bytes < s.points.front().bytes || c.bytes > s.points.back().bytes;
  }
  return times;
}

}  // namespace trainyard::plan
