// From shards of flat groups to boxes.
#include "libtrain/checkpoint/version_1.h"

#include <algorithm>

namespace trainyard::checkpoint {

std::vector<ParameterEntry> parameters_of(const std::vector<FlatGroupEntry>& flat_groups) {
  std::vector<ParameterEntry> all;
  for (const auto& u : flat_groups) all.insert(all.end(), u.parameters.begin(), u.parameters.end());
  return all;
}

RankBoxes boxes_of_shards(const std::vector<FlatGroupEntry>& flat_groups, int rank) {
  RankBoxes boxes;
  std::int64_t start = 0;  // start of the flat group's shard in the dataset
  std::int32_t tensor = 0;
  for (const auto& flat_group : flat_groups) {
    const auto first = rank * flat_group.shard, end = first + flat_group.shard;
    for (std::size_t i = 0; i < flat_group.parameters.size(); ++i, ++tensor) {
      const auto& p = flat_group.parameters[i];
      const auto from = std::max(first, flat_group.offsets[i]), to = std::min(end, flat_group.offsets[i] + p.count);
      if (from >= to) continue;
      auto at = start + from - first;
      for (const auto& box : boxes_of_range(p.shape, from - flat_group.offsets[i], to - from)) {
        boxes.push_back({tensor, at, box});
        at = boxes.back().end();
      }
    }
    start += flat_group.shard;
  }
  return boxes;
}

}  // namespace trainyard::checkpoint
