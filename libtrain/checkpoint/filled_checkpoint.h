// FilledCheckpoint: fills the rank files of a new checkpoint part by part with values that are computed from sources.
#pragma once

#include "libtrain/checkpoint/reshard.h"

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

using Fingerprints = std::map<std::string, std::uint64_t>;  // by path of a tensor

class FilledCheckpoint {
 public:
  // Elements of a tensor that are consecutive in the datasets.
  struct Slice {
    const std::string& name;
    std::vector<Box> boxes;
    std::int64_t count;
  };
  // Sources of one thread, and the bytes that it read of their tensors.
  struct Sources {
    std::vector<Reader> readers;
    std::int64_t bytes_read = 0;
    // Reads the slice, of a tensor of this name.
    void read(Reader& reader, const Kind& kind, const Slice& slice, std::vector<float>& values);
  };
  // Fills `values`, which has slice.count elements. Several threads call it.
  using Compute =
      std::function<void(const Kind& kind, const Slice& slice, Sources& sources, std::vector<float>& values)>;

  FilledCheckpoint(const std::vector<const Reader*>& sources, NewCheckpoint& target, const ReshardOptions& options,
                   Compute compute);
  Fingerprints run();  // fills all rank files that are not kept; returns what was made
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Part {
    int rank = 0;
    Kind kind = Kind::model;
    std::int64_t first = 0, end = 0;  // elements of the datasets
  };
  struct Hands;
  void add_parts(int rank);
  void fill(const Part& part, Hands& hands);
  void put(const Part& part, const ParameterEntry& p, const StoredBox& stored, std::int64_t from, std::int64_t to,
           Hands& hands);

  const std::vector<const Reader*>& sources_;
  NewCheckpoint& target_;
  const ReshardOptions& options_;
  Compute compute_;
  std::vector<Part> parts_;
  std::mutex mutex_;
  std::int64_t done_ = 0, all_ = 0, bytes_read_ = 0;
};

// Fills the checkpoint and publishes it, if what was written is what was computed.
ReshardResult fill_and_publish(const std::vector<const Reader*>& sources, NewCheckpoint& target,
                               const ReshardOptions& options, FilledCheckpoint::Compute compute);

}  // namespace trainyard::checkpoint
