// The frontier of time over memory: how long the best step takes with less and less memory of a device.
#pragma once

#include "libtrain/plan/search_answers.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace trainyard::plan {

// About so many layouts, ascending in memory and descending in time. Each is the best of those that need no more memory
// than it. The last is the best in the memory of the search. The first needs the least memory in which a layout was
// found: in 4 % less, none fits. Between these two the memory grows by equal factors, and layouts that are the best in
// several of these memories count once. `watch` hears how many searches are over, and of how many at most. Empty:
// nothing fits.
std::vector<FoundPlan> frontier(const SearchOf& of, int points, const std::function<void(int, int)>& watch = {});

}  // namespace trainyard::plan
