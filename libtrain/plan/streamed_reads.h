// StreamedReads: what a rank reads of a checkpoint while it evaluates with streamed weights, to the byte.
#pragma once

#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/schedule/schedule.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The leases of a stage in an evaluation of `micros` micro-batches.
LeaseOrder evaluation_leases(const ModelPart& part, const Pipeline& pipeline, int stage, std::int64_t micros);

// A flat group is read when it is leased and its slot (SlotPlan) has another one. So the groups outside the layers are
// read once, and the layers in every pass, unless there are as many slots as layers.
class StreamedReads {
 public:
  // `part` is what the rank computes. stored_bytes: of an element in the checkpoint. Flat groups are read by shards.
  StreamedReads(const ModelPart& part, const Topology& topology, int rank, int gathered_layers,
                std::int64_t stored_bytes);
  // Adds passes behind the ones that were added before. Returns their bytes.
  std::int64_t add(const LeaseOrder& leases);
  std::int64_t bytes() const { return bytes_; }

 private:
  SlotPlan slots_;
  std::vector<std::int64_t> shard_bytes_;  // of each flat group: logical elements that the rank reads
  std::vector<int> holds_;                 // of each slot: a flat group, or -1
  std::int64_t bytes_ = 0;
};

}  // namespace trainyard::plan
