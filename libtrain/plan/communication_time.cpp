// Sizes of calls from flat groups and leases; times from fits.
#include "libtrain/plan/communication_time.h"

#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

constexpr const char* exchange = "exchange";

// Sums of integers are not measured. They take as long as f32 sums of the same size in bytes.
base::DType measured_type(base::DType type) {
  return type == base::DType::i32 || type == base::DType::i64 ? base::DType::f32 : type;
}

const CommSeries& series_of(const Profile& profile, const SizedCalls& c, int world) {
  const auto type = base::name_of(measured_type(c.type));
  const auto measured = measured_as(c.group, c.operation);
  const int ranks = c.group.is_stages() ? 2 : c.ranks;  // stages send each other messages, which pairs measure
  for (const auto* group : {measured.group.c_str(), "world"})
    for (const auto& s : profile.communication)
      if (s.group == group && s.operation == measured.operation && s.ranks == ranks &&
          (s.type == type || !adds(measured.operation)))
        return s;
  throw base::InputError(fmt::format("the profile has no {} {} over a {} group of {} ranks", measured.operation, type,
                                     measured.group, ranks),
                         fmt::format("profile-comm --plan PLAN on {} ranks measures what this plan uses", world));
}

// The size as a profile counts it: for an exchange, what one of the two ranks sends.
std::int64_t measured_bytes(const SizedCalls& c) {
  if (c.group.is_stages()) return 2 * (c.bytes / c.ranks) * (c.ranks - 1);
  return measured_as(c.group, c.operation).operation == exchange ? c.bytes / c.ranks : c.bytes;
}

}  // namespace

Measured measured_as(CallGroup group, const std::string& operation) {
  if (group == CallGroup(Axis::pipe) || operation == "partial_sums") return {name_of(group), exchange};
  return {name_of(group.is_stages() ? CallGroup(Axis::pipe) : group), operation};
}

std::vector<SizedCalls> step_calls(const Plan& p, int rank) {
  std::vector<SizedCalls> out;
  for (auto& c : all_step_calls(p, rank)) {
    if (c.ranks == 1) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const SizedCalls& o) {
      return o.operation == c.operation && o.group == c.group && o.bytes == c.bytes && o.type == c.type;
    });
    if (same == out.end()) out.push_back(std::move(c));
    else same->calls += c.calls, same->sending += c.sending;
  }
  return out;
}

std::vector<CommunicationTime> communication_times(const Plan& p, const Profile& profile, int rank) {
  std::vector<CommunicationTime> times;
  for (const auto& c : step_calls(p, rank)) {
    const auto& s = series_of(profile, c, p.topology.world());
    auto t = std::find_if(times.begin(), times.end(), [&](const CommunicationTime& other) {
      return other.operation == c.operation && other.group == c.group;
    });
    if (t == times.end()) t = times.insert(times.end(), {c.group, c.operation, 0, 0, false});
    t->calls += c.calls;
    t->seconds += static_cast<double>(c.calls) * s.fit.seconds(measured_bytes(c));
    t->beyond |= measured_bytes(c) < s.points.front().bytes || measured_bytes(c) > s.points.back().bytes;
  }
  return times;
}

}  // namespace trainyard::plan
