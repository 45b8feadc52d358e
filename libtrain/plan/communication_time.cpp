// Sizes of calls from units and leases; times from fits.
#include "libtrain/plan/communication_time.h"

#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// Sums over words (bits of others are zero) are not measured; they take as long as those of numbers of their size.
base::DType measured_type(base::DType type) { return type == base::DType::i32 ? base::DType::f32 : type; }

const CommSeries& series_of(const Profile& profile, const SizedCalls& c, int world) {
  const auto type = base::name_of(measured_type(c.type));
  for (const auto* group : {c.group.c_str(), "world"})
    for (const auto& s : profile.communication)
      if (s.group == group && s.operation == c.operation && s.ranks == c.ranks &&
          (s.type == type || !adds(c.operation)))
        return s;
  throw base::InputError(
      fmt::format("the profile has no {} {} over a {} group of {} ranks", c.operation, type, c.group, c.ranks),
      fmt::format("profile-comm --plan PLAN on {} ranks measures what this plan uses", world));
}

}  // namespace

std::vector<SizedCalls> step_calls(const Plan& p) {
  std::vector<SizedCalls> out;
  for (auto& c : all_step_calls(p, 0)) {
    if (c.ranks == 1) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const SizedCalls& o) {
      return o.operation == c.operation && o.group == c.group && o.bytes == c.bytes && o.type == c.type;
    });
    if (same == out.end()) out.push_back(std::move(c));
    else same->calls += c.calls, same->sending += c.sending;
  }
  return out;
}

std::vector<CommunicationTime> communication_times(const Plan& p, const Profile& profile) {
  std::vector<CommunicationTime> times;
  for (const auto& c : step_calls(p)) {
    const auto& s = series_of(profile, c, p.topology.world());
    auto t = std::find_if(times.begin(), times.end(), [&](const CommunicationTime& other) {
      return other.operation == c.operation && other.group == c.group;
    });
    if (t == times.end()) t = times.insert(times.end(), {c.group, c.operation, 0, 0, false});
    t->calls += c.calls;
    t->seconds += static_cast<double>(c.calls) * s.fit.seconds(c.bytes);
    t->beyond |= c.bytes < s.points.front().bytes || c.bytes > s.points.back().bytes;
  }
  return times;
}

}  // namespace trainyard::plan
