// Two profiles side by side: what became slower, and how well the fits of the first predict the second.
#pragma once

#include "libtrain/plan/links/profile.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// One size or one local rate, in both profiles. `change` is new time / base time - 1, whatever the unit, so above 0 is
// slower.
struct ProfileChange {
  std::string what;                          // "data all_gather f32 1048576 B", "memory.copy 4 threads"
  double before = 0, after = 0, change = 0;  // seconds, FLOP/s or B/s
  std::string unit;
  bool outside = false;  // each median is outside the interval of 90 % of the other's repeats, on the worse side
};

// A fit compared with another run than the one it was made from.
struct FitJudgement {
  std::string what;     // "data all_gather f32"
  double error = 0;     // mean of |predicted / measured - 1| over sizes
  double noise = 0;     // mean of |median of the first / measured - 1| over sizes: the difference of two measurements
  double coverage = 0;  // share of the new repeats inside the predicted 90 % intervals
  std::int64_t repeats = 0;
};

struct ProfileComparison {
  std::vector<ProfileChange> changes;  // in the order of `base`
  std::vector<FitJudgement> judgements;
  std::vector<std::string> missing;  // measured in base only
};

// Throws InputError if the two cannot be compared: other ranks, backend or device, or nothing in common.
ProfileComparison compare(const Profile& base, const Profile& now);

// Changes that are slower by more than `most` (0.05 is 5 %) and outside the interval.
std::vector<ProfileChange> regressions(const ProfileComparison& comparison, double most);

}  // namespace trainyard::plan
