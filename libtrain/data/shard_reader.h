// ShardReader: one token shard, mapped into memory.
#pragma once

#include "libtrain/data/shard_set.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

// Size and checksum of everything but the tokens are compared before the HDF5 library opens the file (when the index recorded them); the tokens' own
// checksums are compared block by block at first touch. InputError names file and block. Reading is for one thread.
class ShardReader {
 public:
  ShardReader(const std::string& folder, const ShardEntry& entry, bool checksummed);
  ~ShardReader();
  ShardReader(ShardReader&& other) noexcept;
  ShardReader& operator=(ShardReader&&) = delete;

  std::int64_t tokens() const { return tokens_; }
  std::span<const std::uint64_t> documents() const { return documents_; }   // offsets, one more than documents
  void read(std::int64_t first, std::int64_t count, std::int32_t* out);
  void verify_all();
  const std::string& path() const { return path_; }

 private:
  void check_blocks(std::int64_t first_byte, std::int64_t end_byte);

  std::string path_;
  base::DType dtype_ = base::DType::u16;
  std::int64_t tokens_ = 0, vocabulary_ = 0;
  const char* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  const char* payload_ = nullptr;
  std::vector<std::uint64_t> documents_;
  std::vector<std::uint32_t> sums_;
  std::vector<bool> checked_;
};

}  // namespace trainyard::data
