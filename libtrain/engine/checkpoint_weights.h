// CheckpointWeights: the weights of a checkpoint as a source of streamed weights. Every byte is checked whenever it is
// read, and every tensor once more when all of it was read for the first time.
#pragma once

#include "libtrain/checkpoint/read_sums.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/params/weight_source.h"
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/tensor/exec.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace trainyard::engine {

// Reads /model of a checkpoint, whatever parallel layout wrote it, and rounds or widens it to the working dtype as
// loading does. The files do not stay in the system's page cache. Memory: one block, and `piece` elements in f32 if the
// working dtype is not f32.
class CheckpointWeights : public params::WeightSource {
 public:
  static constexpr std::int64_t piece = std::int64_t{1} << 21;

  // For rank `rank` of `topology`. The set and the topology must outlive it.
  CheckpointWeights(const plan::FlatGroupSet& set, const plan::Topology& topology, int rank);
  // Before the first read. Throws as the reader does.
  void open(const checkpoint::Reader& reader);

  // InputError for damage, and for a checkpoint that was removed or became another one; base::Unreadable for what the
  // system cannot read.
  void read(int flat_group, base::View shard) override;

  // Sums of the first read of each flat group. Use it when no read is under way.
  checkpoint::ReadSums& sums() { return *sums_; }
  std::int64_t bytes() const { return bytes_; }              // of weights that were read, as stored
  std::int64_t block_bytes() const { return block_bytes_; }  // what was taken from files for them: whole blocks

 private:
  void read_piece(int flat_group, std::int64_t first, base::View to);

  const plan::FlatGroupSet& set_;
  const plan::Topology& topology_;
  int rank_;
  std::unique_ptr<tensor::Exec> host_;
  std::optional<checkpoint::Reader> reader_;
  std::optional<checkpoint::Presence> presence_;
  std::optional<checkpoint::ReadSums> sums_;
  std::int64_t element_bytes_ = 0;  // stored
  std::vector<bool> summed_;        // flat groups that were read
  std::vector<float> wide_;
  std::atomic<std::int64_t> bytes_ = 0, block_bytes_ = 0;
};

}  // namespace trainyard::engine
