// Groups: which ranks communicate with one another, from a user's text or from a plan.
#pragma once

#include "libtrain/plan/grid/topology.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// Groups of one name that work at the same time, such as the data groups of a run. All have the same size, and a rank
// is in at most one. Ranks ascend in each group.
struct GroupFamily {
  std::string name, description;  // "tensor", "0-7"
  std::vector<std::vector<int>> groups;
  int size() const { return groups.empty() ? 0 : static_cast<int>(groups.front().size()); }
};

// Parses "NAME:SPEC;NAME:SPEC...", where SPEC is
//   all         the world
//   0-7         these ranks, the others idle; 0,2,4-6 likewise
//   0-3/4-7     several groups at the same time
//   block4      0-3, 4-7, ... to the end of the world
//   stride8     ranks that are equal modulo 8: 0,8,16.. and 1,9,17.. and so on
// Throws UsageError naming the wrong part: no name, a name twice, a rank twice or outside the world, groups of unequal
// sizes, a group of one rank.
std::vector<GroupFamily> parse_groups(const std::string& text, int world);

// One family for each axis of a topology that has more than one rank; none if there is no such axis. Expert axes, a
// second reading of the data axis, come last. Along pipe the groups are pairs of neighbouring stages, and the last of
// an odd number of stages idles.
std::vector<GroupFamily> groups_of(const Topology& topology);

// The whole world as one group, "world".
GroupFamily whole_world(int world);
// The whole world, and for each smaller number of ranks that divides it, from 2 on, groups of as many neighbours:
// "groups-of-2".
std::vector<GroupFamily> equal_groups(int world);

}  // namespace trainyard::plan
