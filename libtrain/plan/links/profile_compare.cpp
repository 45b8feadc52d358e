// Compares profiles size by size and rate by rate.
#include "libtrain/plan/links/profile_compare.h"

#include "libtrain/base/error.h"

#include <cmath>

namespace trainyard::plan {

namespace {

std::string name_of(const CommSeries& s) { return fmt::format("{} {} {}", s.group, s.operation, s.type); }

// Whether each median is outside the bulk of the other's repeats, and the new median is the larger one.
bool above(const std::vector<double>& before, const std::vector<double>& after) {
  const auto b = base::prediction_interval(before), a = base::prediction_interval(after);
  return base::median(after) > b.high && base::median(before) < a.low;
}

void refuse_strangers(const Profile& base, const Profile& now) {
  const auto same = [](const std::string& what, const auto& a, const auto& b) {
    if (a != b)
      throw base::InputError(fmt::format("the profiles cannot be compared: {} was {} and is {}", what, a, b),
                             "measure both in the same way");
  };
  same("the number of ranks", base.ranks, now.ranks);
  same("the device", base.device, now.device);
  if (!base.communication.empty() && !now.communication.empty()) same("the backend", base.backend, now.backend);
}

const CommPoint* point_of(const CommSeries& s, std::int64_t bytes) {
  for (const auto& p : s.points)
    if (p.bytes == bytes) return &p;
  return nullptr;
}

void compare_series(const CommSeries& s, const CommSeries& now, ProfileComparison& out) {
  FitJudgement judged{name_of(s), 0, 0, 0, 0};
  std::int64_t inside = 0;
  int sizes = 0;
  for (const auto& p : s.points) {
    const auto what = fmt::format("{} {} B", name_of(s), p.bytes);
    const auto* q = point_of(now, p.bytes);
    if (q == nullptr) {
      out.missing.push_back(what);
      continue;
    }
    out.changes.push_back({what, p.seconds, q->seconds, q->seconds / p.seconds - 1, "s", above(p.repeats, q->repeats)});
    judged.error += std::abs(s.fit.seconds(p.bytes) / q->seconds - 1);
    judged.noise += std::abs(p.seconds / q->seconds - 1);
    const auto interval = s.fit.interval(p.bytes);
    for (const double t : q->repeats) inside += t >= interval.low && t <= interval.high;
    judged.repeats += static_cast<std::int64_t>(q->repeats.size());
    ++sizes;
  }
  if (sizes == 0) return;
  judged.error /= sizes;
  judged.noise /= sizes;
  judged.coverage = static_cast<double>(inside) / static_cast<double>(judged.repeats);
  out.judgements.push_back(judged);
}

void compare_rate(const LocalRate& r, const LocalRate& now, ProfileComparison& out) {
  const bool time = r.unit == "s";
  const auto what = fmt::format("{}{}{} {} thread{}", r.name, r.shape.empty() ? "" : " ", r.shape, r.threads,
                                r.threads == 1 ? "" : "s");
  out.changes.push_back({what, r.value, now.value, (time ? now.value / r.value : r.value / now.value) - 1, r.unit,
                         time ? above(r.repeats, now.repeats) : above(now.repeats, r.repeats)});
}

}  // namespace

ProfileComparison compare(const Profile& base, const Profile& now) {
  refuse_strangers(base, now);
  ProfileComparison out;
  for (const auto& s : base.communication) {
    const auto* other = now.find(s.group, s.operation, s.type);
    if (other != nullptr && other->ranks == s.ranks && other->groups == s.groups) compare_series(s, *other, out);
    else out.missing.push_back(name_of(s));
  }
  for (const auto& r : base.local) {
    const auto* other = now.find_local(r.name, r.shape, r.threads);
    if (other != nullptr) compare_rate(r, *other, out);
    else out.missing.push_back(fmt::format("{} {}", r.name, r.shape));
  }
  if (out.changes.empty())
    throw base::InputError("the profiles have nothing in common", "measure the same groups, operations and sizes");
  return out;
}

std::vector<ProfileChange> regressions(const ProfileComparison& comparison, double most) {
  std::vector<ProfileChange> out;
  for (const auto& c : comparison.changes)
    if (c.change > most && c.outside) out.push_back(c);
  return out;
}

}  // namespace trainyard::plan
