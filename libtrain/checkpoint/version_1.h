// The layout of a version 1 checkpoint: equal shards of flat parameter groups on data-parallel ranks.
#pragma once

#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/tensor_table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// Where the parameters of a flat parameter group lie. The flat group is divided into equal shards. Offsets are in
// elements. Only the logical elements count; the rest is padding.
struct FlatGroupEntry {
  std::string name;
  std::int64_t shard = 0;  // elements of one rank; the flat group is ranks * shard long
  std::vector<ParameterEntry> parameters;
  std::vector<std::int64_t> offsets;  // of each parameter in the flat group
};
std::vector<ParameterEntry> parameters_of(const std::vector<FlatGroupEntry>& flat_groups);
// The boxes of rank `rank`: every rank has one shard of each flat group, back to back.
RankBoxes boxes_of_shards(const std::vector<FlatGroupEntry>& flat_groups, int rank);

}  // namespace trainyard::checkpoint
