// What ranks send so that each has its group shard.
#include "libtrain/plan/cost/zero_group_calls.h"

#include "libtrain/plan/grid/zero_groups.h"

namespace trainyard::plan {

std::int64_t exchange_segments(const FlatLayout& layout, const StateShape& shape, std::int64_t most) {
  const auto copies = ZeroGroups(shape.topology).copies();
  return transfer_segments(copies * layout.shard * base::size_of(shape.working), copies, shape.topology, most);
}

std::vector<SizedCalls> zero_group_calls(const FlatGroupTable& table, const StateShape& shape, int data_rank,
                                         std::int64_t most) {
  const ZeroGroups groups(shape.topology);
  std::vector<SizedCalls> out;
  if (!groups.any()) return out;
  for (const auto& e : table.entries()) {
    if (e.frozen) continue;
    const auto shard = e.layout.shard * base::size_of(shape.working);
    const auto segments = exchange_segments(e.layout, shape, most);
    const auto receivers = groups.copies() - (groups.keeps_own(data_rank) ? 1 : 0);
    out.push_back({.group = e.flat_group.group,
                   .ranks = e.shards,
                   .operation = "all_to_all",
                   .type = shape.working,
                   .bytes = groups.copies() * shard / segments,
                   .calls = e.times * segments,
                   .sending = e.times * segments,
                   .sent = e.times * receivers * shard});
  }
  return out;
}

}  // namespace trainyard::plan
