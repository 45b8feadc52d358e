// What a step's collectives take on links that were profiled.
#pragma once

#include "libtrain/plan/plan.h"
#include "libtrain/plan/profile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// The calls of a step that leave a rank, those of one operation and size together.
std::vector<SizedCalls> step_calls(const Plan& plan, int rank = 0);

// How profile-comm measures what a plan calls so: messages between stages are exchanges of neighbours, who may send at
// the same time, and what two stages hold together goes over their links, too.
struct Measured {
  std::string group, operation;
};
Measured measured_as(const std::string& group, const std::string& operation);

struct CommunicationTime {
  std::string group, operation;
  std::int64_t calls = 0;
  double seconds = 0;   // if nothing were hidden behind computing
  bool beyond = false;  // some size lies outside the measured ones
};
// Of a rank, by the fits of the profile's series of that operation over a group of that name ("data", "tensor", "pipe":
// pairs of neighbouring stages), else "world", of as many ranks, of the type that is sent (any type where bytes only
// move; for sums over words, f32). InputError naming what the profile lacks.
std::vector<CommunicationTime> communication_times(const Plan& plan, const Profile& profile, int rank = 0);

}  // namespace trainyard::plan
