// Measurement: the launched ranks, the requested groups, and their profile on rank 0.
#pragma once

#include "libtrain/plan/links/profile.h"
#include "libtrain/profile/ranks.h"
#include "tools/profile-comm/options.h"

#include <functional>
#include <optional>
#include <string>

namespace trainyard::tools {

// The ranks and what they run on, filled in by a backend.
struct Launched {
  profile::Ranks ranks;  // Ranks::kind is the profile's backend; "none" for one process
  std::string library;
  int ranks_on_node = 1;
  base::Device device;
};

struct MeasureListener {                             // called on rank 0
  std::function<void(const std::string&)> note;      // a line for the log
  std::function<void(const std::string&)> progress;  // what is being measured
};

// Both are collective, and return something only on rank 0. describe: what would be measured (--dry-run). measure: the
// profile.
std::string describe(Launched& launched, const ProfileOptions& options);
std::optional<plan::Profile> measure(Launched& launched, const ProfileOptions& options, const MeasureListener& listener,
                                     comm::Ledger& rounds);

}  // namespace trainyard::tools
