// OpenShards: the shards of a split, of whose files only so many are open at a time.
#pragma once

#include "libtrain/data/shard_reader.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::data {

class OpenShards {
 public:
  static constexpr int most_open = 128;
  // Only documents with this value of the field are read; an empty field: all.
  struct Kept {
    std::string field, value;
  };
  OpenShards(const std::string& folder, const SetIndex& index, const std::vector<ShardEntry>& split, int open,
             const Kept& kept);

  std::size_t size() const { return shards_.size(); }
  const ShardReader& operator[](std::size_t shard) const { return shards_[shard]; }  // to ask, not to read
  // The shard to read. If too many files are open, the one that was opened first is closed.
  ShardReader& to_read(std::size_t shard);

 private:
  void make_room(std::size_t opened);

  std::vector<ShardReader> shards_;
  std::vector<std::int64_t> open_;  // open shards, oldest at next_open_; -1: none
  std::size_t next_open_ = 0;
};

}  // namespace trainyard::data
