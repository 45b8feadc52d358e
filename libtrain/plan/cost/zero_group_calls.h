// The exchange of shards that gives the ranks of zero groups their group shards (plan/grid/zero_groups.h).
#pragma once

#include "libtrain/plan/cost/sized_calls.h"
#include "libtrain/plan/cost/states.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The exchange of a flat group's shards is divided as transfers of group shards are.
std::int64_t exchange_segments(const FlatLayout& layout, const StateShape& shape, std::int64_t most = segment_bytes);

// The exchanges of a step: of each flat group one, after the update. Empty without zero groups.
std::vector<SizedCalls> zero_group_calls(const FlatGroupTable& table, const StateShape& shape, int data_rank,
                                         std::int64_t most = segment_bytes);

}  // namespace trainyard::plan
