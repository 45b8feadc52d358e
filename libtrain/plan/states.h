// Model states: how many bytes of parameters, gradients and optimizer each rank holds under a ZeRO stage, padding
// included.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/plan/batch.h"
#include "libtrain/plan/flat_group_table.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Everything the bytes depend on. `zero` follows Rajbhandari et al. (2020), "ZeRO: memory optimizations toward training
// trillion parameter models": 1 cuts the optimizer states, 2 the gradients too, 3 the parameters too.
struct StateShape {
  int zero = 0;
  base::DType working = base::DType::f32;
  base::DType gradient = base::DType::f32;
  BatchPlan batch;
  int gathered_layers = 2;  // flat groups in flight among the layers
  Topology topology;        // how many shards a flat group has: the ranks of its group
};

// How gradients are kept, a consequence of stage, fold and rounds:
//  - whole: one local gradient of every occurrence (stages 0 and 1; stages 2 and 3 only with fold > 1, which adds up a
//  group
//    locally)
//  - shards: the folded sum of the own shards, apart from `whole` (stages 2 and 3; stage 1, or a fold above 1, with
//    more than one round)
//  - flat groups: rotating flat group buffers (not with fold 1 at stage 1, nor at stage 0 on one rank with one round:
//  there
//    gradients go straight into `whole`)
// Of experts that ranks share gradients have several sources (contributions_of), which are made and folded one after
// the other: with fold 1 into flat group buffers, from there into the sum. A local group is kept for every source.
struct GradientPlan {
  bool whole = false, shards = false, flat_groups = false;
};
GradientPlan gradient_plan(const StateShape& shape, int sources = 1);
// How many of an occurrence's local gradients are kept beside one another, where any are.
std::int64_t kept_sources(const StateShape& shape, int sources);
// The flat group buffers; slots of flat groups that have none are empty.
SlotPlan gradient_slots(const FlatGroupTable& table, const StateShape& shape);

// Between ranks that share layers, transfers of whole flat groups go in segments of so many bytes, all shards together:
// a collective of the tensor group waits for one of them at most (params/transfers.h).
inline constexpr std::int64_t segment_bytes = std::int64_t{16} << 20;
inline std::int64_t transfer_segments(std::int64_t bytes, int shards, const Topology& topology,
                                      std::int64_t most = segment_bytes) {
  return topology.size(Axis::tensor) == 1 || shards == 1 ? 1 : (bytes + most - 1) / most;
}

struct StateBytes {
  std::int64_t parameters = 0, gathered_flat_groups = 0, gradients = 0, flat_group_gradients = 0, optimizer = 0,
               communication_staging = 0, save_snapshot = 0;
};
StateBytes state_bytes(const FlatGroupTable& table, const StateShape& shape);

}  // namespace trainyard::plan
