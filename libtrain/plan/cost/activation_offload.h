// ActivationOffload: which layers of a rank have their inputs on disk between forward and backward, in which extents,
// and the buffers that the inputs pass through.
#pragma once

#include "libtrain/base/aligned.h"
#include "libtrain/base/storage.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/schedule/schedule.h"
#include "libtrain/plan/spec/offload.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trainyard::plan {

// While one input is copied, the ones before are still written. While one is used, the next ones are already read.
inline constexpr std::int64_t most_input_writes = 2, most_input_reads = 3;

// A layer with Recompute::layers keeps its input alone. Of a rank, whose layers all have inputs of one size. An extent
// holds the input of one layer for one slot, which is a micro-batch in flight of a chunk (virtual stage).
class ActivationOffload {
 public:
  ActivationOffload() = default;  // all inputs stay in memory
  // slots: for each chunk of the part, the micro-batches in flight. A share is of the layers that are recomputed in
  // full, which are the first ones of the rank. It means the first of these, counted up.
  ActivationOffload(const ModelPart& part, const MicroShape& shape, const Placement& placement,
                    const Recomputation& recompute, const std::vector<int>& slots);

  bool any() const { return layers() > 0; }
  // Of each chunk, how many layers have their inputs on disk: its first ones. Empty if the part has none there.
  const std::vector<std::int64_t>& layers_of_chunks() const { return layers_; }
  std::int64_t layers() const;                   // of all chunks
  std::int64_t bytes() const { return bytes_; }  // of one input
  std::int64_t extents() const;
  // The index of an extent. `layer` counts the layers of the chunk. -1: that layer keeps its input in memory.
  int extent(int chunk, std::int64_t layer, int slot) const;

  // Buffers, which hold one input each (MemoryCategory::offload_buffers).
  std::int64_t writes() const { return std::min(most_input_writes, extents()); }
  std::int64_t reads() const { return std::min(most_input_reads, extents()); }
  // What lies on disk passes through these; of a GPU they are its host's.
  std::int64_t buffer_bytes() const { return on_disk() ? (writes() + reads()) * base::storage_bytes(bytes_) : 0; }
  std::int64_t disk_bytes() const { return on_disk() ? extents() * base::storage_bytes(bytes_) : 0; }
  // Of a GPU: buffers of the device, among the activations.
  std::int64_t device_buffer_bytes() const { return of_gpu_ ? (writes() + reads()) * base::aligned(bytes_) : 0; }
  std::int64_t host_bytes() const { return on_host() ? extents() * base::aligned(bytes_) : 0; }
  bool on_disk() const { return place_ == Place::disk; }
  bool on_host() const { return place_ == Place::host; }  // of a GPU
  // Of a step in which the rank computes so many micro-batches, without the empty ones: from and to the disk, and
  // between a GPU and its host.
  base::StorageTotals step_bytes(std::int64_t micro_batches) const;
  LinkBytes step_link(std::int64_t micro_batches) const;

 private:
  Place place_ = Place::device;
  bool of_gpu_ = false;
  std::int64_t bytes_ = 0;
  std::vector<std::int64_t> layers_;
  std::vector<int> slots_;
};

// The extents that a rank with these actions reads in a step, in the order of its backward passes. Each was written
// before by the forward pass of the same micro-batch. Empty micro-batches have nothing.
std::vector<int> input_reads(const std::vector<Action>& actions, const ModelPart& part,
                             const ActivationOffload& offload);

}  // namespace trainyard::plan
