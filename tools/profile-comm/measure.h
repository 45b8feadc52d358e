// Measuring: the ranks as they were launched, the groups that are wanted, and a profile of them on rank 0.
#pragma once

#include "libtrain/plan/profile.h"
#include "libtrain/profile/ranks.h"
#include "tools/profile-comm/options.h"

#include <functional>
#include <optional>
#include <string>

namespace trainyard::tools {

// The ranks, and what they run on: what a backend fills in.
struct Launched {
  profile::Ranks ranks;  // their kind is the profile's backend: "none" without ranks
  std::string library;
  int ranks_on_node = 1;
  base::Device device;
};

struct MeasureListener {                             // of rank 0
  std::function<void(const std::string&)> note;      // a line for the log
  std::function<void(const std::string&)> progress;  // what is under way
};

// Collective. A description of what would be measured (--dry-run), or the profile; empty on other ranks than 0.
std::string describe(Launched& launched, const ProfileOptions& options);
std::optional<plan::Profile> measure(Launched& launched, const ProfileOptions& options, const MeasureListener& listener,
                                     comm::Ledger& rounds);

}  // namespace trainyard::tools
