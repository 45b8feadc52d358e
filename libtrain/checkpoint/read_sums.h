// Fingerprints of what was read of a checkpoint, summed where it lies in memory after reading. Whoever reads a whole
// tensor can so detect two faults: a manifest that does not belong to the payloads, and memory that changed between a
// fingerprint and a checksum.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/comm/communicator.h"
#include "libtrain/plan/blocks/ownership.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// The reader must outlive this object. It is for one thread; other threads and other ranks have sums of their own.
// Memory: 16 bytes for each tensor of each kind.
class ReadSums {
 public:
  // Large shards are summed by up to `threads` threads.
  explicit ReadSums(const Reader& reader, int threads = 1);

  // Adds a shard that Reader::read_shard() returned, but only the elements of which rank `rank` is the first holder
  // (plan/blocks/held.h). For a flat group that a pipeline stage has borrowed, only the owning stage calls this.
  void add(const Kind& kind, const plan::FlatGroup& flat_group, const plan::Topology& topology, int rank,
           const float* shard);
  // The same for what Reader::read_range() returned.
  void add(const Kind& kind, const PartOfShard& range, const float* values);
  // Adds elements [first, first + count) of a flat tensor that Reader::read_tensor() returned.
  // Every rank that holds part of a parameter reads its states of rows and columns whole. Of these ranks one alone adds
  // them: the rank that would save them (for_each_begun in saved_shards.h), with `first` 0 and all elements.
  void add(const Kind& kind, const std::string& name, std::int64_t first, std::int64_t count, const float* values);
  void add(const ReadSums& other);  // sums of the same checkpoint
  // Adds up the sums of all ranks, on every rank. Collective over `control`, a communicator of host memory.
  void add_ranks(comm::Communicator& control, tensor::Exec& exec);

  // InputError naming the first tensor whose sum differs from the manifest's fingerprint. Only tensors that were read
  // whole, once or several times, are checked.
  void require() const;

 private:
  struct Sum {
    std::uint64_t fingerprint = 0, elements = 0;
  };
  struct Part {
    std::size_t sum;
    const float* values;
    std::int64_t first, count;
  };
  std::size_t place_of(const Kind& kind, const std::string& name) const;
  void add(const std::vector<Part>& parts);

  const Reader& reader_;
  int threads_;
  std::vector<TensorInfo> tensors_;
  std::vector<Sum> sums_;                    // one for each tensor
  std::vector<std::size_t> trained_before_;  // of each parameter, and of all: those before it that are not frozen
};

}  // namespace trainyard::checkpoint
