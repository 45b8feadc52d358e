// What a step's collectives take on links that were profiled.
#pragma once

#include "libtrain/plan/plan.h"
#include "libtrain/plan/profile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// Calls of one size in a step of the data group: `bytes` of the whole that is gathered or reduced, all pieces together, as a profile counts sizes.
struct SizedCalls {
  std::string operation, type;
  std::int64_t bytes = 0, calls = 0;
};
// Every call of a step without validation, as step_traffic adds them up. One rank has none.
std::vector<SizedCalls> step_calls(const Plan& plan);

struct CommunicationTime {
  std::string operation;
  std::int64_t calls = 0;
  double seconds = 0;                  // if nothing were hidden behind computing
  bool beyond = false;                 // some size lies outside the measured ones
};
// By the fits of the profile's series of that operation over a group called "data", else "world", of as many ranks, of the type that is sent (any type where bytes only move).
// InputError naming what the profile lacks.
std::vector<CommunicationTime> communication_times(const Plan& plan, const Profile& profile);

}  // namespace trainyard::plan
