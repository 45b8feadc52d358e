// Fingerprints of what was read of a checkpoint, added up where it lies then: a manifest that does not belong to the
// payloads, and memory that changed between a fingerprint and a checksum, are found by whoever reads all of a tensor.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/comm/communicator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// The reader outlives it. One thread; others, and other ranks, have sums of their own. Memory: 16 bytes for each tensor
// of each kind.
class ReadSums {
 public:
  // Large shards are added up by so many threads.
  explicit ReadSums(const Reader& reader, int threads = 1);

  // What rank `rank` is the first holder of (plan/held.h) of a shard that Reader::read_shard() gave it. A flat group
  // that a stage has borrowed is its owner's to add.
  void add(Kind kind, const plan::FlatGroup& flat_group, const plan::Topology& topology, int rank, const float* shard);
  // Elements [first, first + count) of a tensor, flat, that Reader::read_tensor() gave.
  void add(Kind kind, const std::string& name, std::int64_t first, std::int64_t count, const float* values);
  void add(const ReadSums& other);  // of the same checkpoint
  // Those of all ranks, on every one. Collective over `control`, a communicator of host memory.
  void add_ranks(comm::Communicator& control, tensor::Exec& exec);

  // InputError naming the first tensor that was read whole, once or several times, and whose sum is another than the
  // manifest says.
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
  std::size_t place_of(Kind kind, const std::string& name) const;
  void add(const std::vector<Part>& parts);

  const Reader& reader_;
  int threads_;
  std::vector<TensorInfo> tensors_;
  std::vector<Sum> sums_;  // of the tensors
};

}  // namespace trainyard::checkpoint
