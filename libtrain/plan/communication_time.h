// Predicted time of a step's collectives on links that were profiled.
#pragma once

#include "libtrain/plan/links/profile.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// The calls of a step in which a rank sends to or receives from others, added up by group, operation, type and size.
std::vector<SizedCalls> step_calls(const Plan& plan, int rank = 0);

// The group and operation under which profile-comm measures a plan's call. Messages between pipeline stages are
// measured as exchanges of neighbours, which may send at the same time. Stages that hold the same flat group use the
// same links. Partial sums, which go from node to node, are exchanges of all nodes.
struct Measured {
  std::string group, operation;
};
Measured measured_as(CallGroup group, const std::string& operation);

struct CommunicationTime {
  CallGroup group;
  std::string operation;
  std::int64_t calls = 0;
  double seconds = 0;   // if no communication overlapped with computing
  bool beyond = false;  // some size lies outside the measured sizes
};
// Times of a rank. Each call uses the fit of a series in the profile with the same operation and number of ranks. The
// series' group has the same name ("data", "tensor", "pipe": pairs of neighbouring stages), or else is "world". The
// type is the type that is sent; where bytes only move it may be any type, and sums over words use f32. InputError
// names what the profile lacks.
std::vector<CommunicationTime> communication_times(const Plan& plan, const Profile& profile, int rank = 0);

}  // namespace trainyard::plan
