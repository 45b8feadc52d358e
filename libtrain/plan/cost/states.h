// Model states: the bytes of parameters, gradients and optimizer that each rank holds with a ZeRO stage, with padding.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/view.h"
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/grid/batch.h"
#include "libtrain/plan/spec/master_format.h"
#include "libtrain/plan/spec/offload.h"
#include "libtrain/plan/spec/optimizer_kind.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Everything that the bytes depend on. `zero` is the ZeRO stage of Rajbhandari et al. (2020), "ZeRO: memory
// optimizations toward training trillion parameter models": 1 shards the optimizer states, 2 also the gradients, 3 also
// the parameters.
struct StateShape {
  int zero = 0;
  base::DType working = base::DType::f32;
  base::DType gradient = base::DType::f32;
  BatchPlan batch;
  int gathered_layers = 2;  // layers whose flat groups are gathered or reduced at once
  Topology topology;        // the ranks of a flat group's group: its number of shards
  const OptimizerKind* optimizer = &optimizer_kind(default_optimizer);
  MasterFormat master = MasterFormat::f32;
  Offload offload = {};
  bool breadth_first = false;                       // all micro-batches of a step pass a layer before the next layer
  base::DeviceKind device = base::DeviceKind::cpu;  // where the rank computes
  // The sums of a step's gradients are rounded to it. In memory they stay `gradient`; elsewhere, and on the way from a
  // GPU to its host, they have this dtype.
  base::DType gradient_sums = base::DType::f32;
  bool rounds_sums() const { return base::is_narrow(gradient_sums) && !base::is_narrow(gradient); }
  base::DType sums_elsewhere() const { return rounds_sums() ? gradient_sums : gradient; }
  std::int64_t reduction_piece = std::int64_t{1} << 18;  // elements that travel together from node to node
};

// How gradients are kept. It follows from the ZeRO stage, local accumulation and the number of accumulation steps:
//  - whole: one local gradient of every occurrence. Stages 0 and 1 have it, and stages 2 and 3 only with local
//    accumulation above 1, where a rank adds up a group
//  - shards: the sum of the rank's own shards, apart from `whole`. Stages 2 and 3 have it, and with several
//    accumulation steps also stage 1 and local accumulation above 1
//  - buffers: rotating buffers for the gradient of a flat group. Without local accumulation, two cases do not have
//    them: stage 1, and stage 0 on one rank with one accumulation step. There gradients go straight into `whole`
// Distributed experts, which expert-parallel ranks divide, have gradients from several sources (contributions_of),
// which are computed and reduced one after the other. Without local accumulation they go into flat group buffers and
// from there into the sum. With it, a local sum is kept for every source.
struct GradientPlan {
  bool whole = false, shards = false, buffers = false;
};
GradientPlan gradient_plan(const StateShape& shape, int sources = 1);
// How many local gradients of an occurrence are kept at the same time, if any are kept.
std::int64_t kept_sources(const StateShape& shape, int sources);
// The flat group buffers. Flat groups without a buffer have empty slots. Breadth first, micro-batches of one layer
// follow one another, so they use its buffers in turn.
SlotPlan gradient_slots(const FlatGroupTable& table, const StateShape& shape);

// With tensor parallelism, transfers of flat groups are divided into segments of so many bytes, over all shards
// together, so that tensor-parallel collectives need not wait for whole flat groups (params/transfers.h). Beyond 16
// shards a segment grows with them: each has a 16th of `most`, so that its message outweighs the latency of a ring's
// hop.
inline constexpr std::int64_t segment_bytes = std::int64_t{16} << 20;
inline std::int64_t transfer_segments(std::int64_t bytes, int shards, const Topology& topology,
                                      std::int64_t most = segment_bytes) {
  if (topology.size(Axis::tensor) == 1 || shards == 1) return 1;
  if (bytes <= most) return 1;
  const auto segment = std::max(most, most / 16 * shards);
  return (bytes + segment - 1) / segment;
}
// The elements of each shard in segment i. Every segment but the last has a multiple of 16.
struct TransferSegment {
  std::int64_t first, count;
};
inline TransferSegment transfer_segment(std::int64_t shard, std::int64_t segments, std::int64_t i) {
  const auto edge = [&](std::int64_t k) { return k == segments ? shard : shard * k / segments / 16 * 16; };
  return {edge(i), edge(i + 1) - edge(i)};
}

// `optimizer`: the states of the optimizer, the master weights, and norms (plan/cost/parameter_norms.h). What is on
// disk or a GPU's host (plan/cost/offload.h) is not in them, and has buffers.
struct StateBytes {
  std::int64_t parameters = 0, gathered_weights = 0, gradients = 0, micro_batch_gradients = 0, optimizer = 0,
               communication_staging = 0, save_snapshot = 0, offload_buffers = 0, offloaded_states = 0;
};
StateBytes state_bytes(const FlatGroupTable& table, const StateShape& shape);

// Elements that a rank stages for the largest reduction of flat groups; 0 if none of them is reduced over ranks.
std::int64_t reduction_staging(const FlatGroupTable& table, const StateShape& shape);

}  // namespace trainyard::plan
