// The files of a shard set: names, index, and what one shard records. datasets/README.md defines every name.
#pragma once

#include "libtrain/base/dtype.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::io {
class Hdf5File;
}

namespace trainyard::data {

inline constexpr const char* shard_format = "trainyard.shard/1";
inline constexpr const char* index_format = "trainyard.shards/1";

struct ShardEntry {
  std::string file;  // relative to the set's folder
  std::int64_t tokens = 0, documents = 0;
  std::int64_t bytes = -1;                               // size of the file; -1: not recorded
  std::int64_t payload_offset = -1, payload_bytes = -1;  // of /tokens in the file
  std::uint32_t metadata_crc32c =
      0;  // of everything outside the payload of /tokens; without an index of a sample of the file's bytes
  std::optional<std::uint32_t> tokens_crc32c = {};  // of the payload of /tokens; absent in old indexes and without one
};

struct SetIndex {
  std::string tokenizer = "bytes";         // name; source is where it was found
  std::string tokenizer_source = "bytes";  // "bytes", or the path of the model: relative to the set's folder, or
                                           // absolute (older sets: where it was)
  std::uint32_t tokenizer_crc32c = 0;
  std::int64_t vocabulary = 0;
  std::int32_t end_of_document = 0;
  std::int32_t begin_of_document = -1;  // the token that each document begins with; -1: none
  std::int64_t unknown_tokens = -1;     // in both splits: text that the tokenizer has no token for; -1: not recorded
  std::vector<ShardEntry> train, validation;
  bool checksummed = true;  // false: found by scanning a folder without index.json
};

nlohmann::json index_to_json(const SetIndex& index);
// InputError for what is missing, of another type, out of its range, or at odds with another number of the index. A
// part of a set (parts.h) may have no shard.
enum class IndexOf { set, part };
SetIndex index_from_json(const nlohmann::json& json, const std::string& where, IndexOf what = IndexOf::set);

// What make_tokenizer takes to read the set's tokens; whether the file is there is not looked at.
std::string tokenizer_path(const std::string& folder, const SetIndex& index);

// The attributes of a shard, within their ranges (InputError).
struct ShardFacts {
  std::int64_t vocabulary = 0;
  std::int32_t end_of_document = 0;
  std::optional<std::string> tokenizer = {};
  std::optional<std::uint32_t> tokenizer_crc32c = {};
};
ShardFacts facts_of(const io::Hdf5File& file);

// index.json of the folder, or without one the shards train/*.h5 and validation/*.h5 (or *.h5 in the folder itself:
// train) by their own attributes; then nothing can be checked but their shape. InputError when there is nothing to
// read.
SetIndex read_index(const std::string& folder);

// A hash of the data alone: tokenizer, counts and checksums of the tokens of every shard of both splits, in order.
// Without an index the checksums are of samples.
std::string identity_of(const SetIndex& index);

}  // namespace trainyard::data
