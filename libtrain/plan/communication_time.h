// What a step's collectives take on links that were profiled.
#pragma once

#include "libtrain/plan/plan.h"
#include "libtrain/plan/profile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// The calls of a step that leave rank 0, those of one operation and size together.
std::vector<SizedCalls> step_calls(const Plan& plan);

struct CommunicationTime {
  std::string group, operation;
  std::int64_t calls = 0;
  double seconds = 0;   // if nothing were hidden behind computing
  bool beyond = false;  // some size lies outside the measured ones
};
// By the fits of the profile's series of that operation over a group of that name ("data", "tensor"), else "world", of
// as many ranks, of the type that is sent (any type where bytes only move; for sums over words, f32). InputError naming
// what the profile lacks.
std::vector<CommunicationTime> communication_times(const Plan& plan, const Profile& profile);

}  // namespace trainyard::plan
