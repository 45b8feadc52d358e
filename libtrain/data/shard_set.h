// The files of a shard set: names, index, and what one shard records. datasets/README.md defines every name.
#pragma once

#include "libtrain/base/dtype.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::io {
class Hdf5File;
}

namespace trainyard::data {

inline constexpr const char* shard_format = "trainyard.shard/1";
inline constexpr const char* index_format = "trainyard.shards/1";

// How many tokens the documents of each value have, by field and value.
using FieldTokens = std::map<std::string, std::map<std::string, std::int64_t>>;

struct ShardEntry {
  std::string file;  // relative to the set's folder
  std::int64_t tokens = 0, documents = 0;
  std::int64_t bytes = -1;                               // file size; -1: not recorded
  std::int64_t payload_offset = -1, payload_bytes = -1;  // position and size of /tokens in the file
  // Of everything outside the payload of /tokens. Without an index it is the checksum of a sample of the file's bytes.
  std::uint32_t metadata_crc32c = 0;
  // Of the payload of /tokens. Missing in old indexes and without an index.
  std::optional<std::uint32_t> tokens_crc32c = {};
  std::optional<std::uint32_t> answers_crc32c = {};  // of /answers; missing where the set does not mark answers
  std::optional<std::uint32_t> fields_crc32c = {};   // of /field_values and /fields; missing where none is kept
  FieldTokens field_tokens = {};
};

struct SetIndex {
  std::string tokenizer = "bytes";  // name; tokenizer_source is its place
  // "bytes", or the path of the model: relative to the set's folder, or absolute (older sets: where it was then).
  std::string tokenizer_source = "bytes";
  std::uint32_t tokenizer_crc32c = 0;
  std::int64_t vocabulary = 0;
  std::int32_t end_of_document = 0;
  std::int32_t begin_of_document = -1;  // first token of each document; -1: none
  std::int64_t unknown_tokens = -1;     // in both splits: text for which the tokenizer has no token; -1: not recorded
  std::vector<ShardEntry> train, validation;
  bool checksummed = true;           // false: from scanning a folder without index.json
  bool answers = false;              // shards say which tokens are answers
  bool pairs = false;                // documents are a source and a target, of which the target is the answer
  std::int64_t packed_sequence = 0;  // documents are packed into sequences of so many tokens; 0: they are not
};

nlohmann::json index_to_json(const SetIndex& index);
// InputError for anything that is missing, of another type, out of range, or in conflict with another number of the
// index. A part of a set (parts.h) may have no shards.
enum class IndexOf { set, part };
SetIndex index_from_json(const nlohmann::json& json, const std::string& where, IndexOf what = IndexOf::set);

// The argument with which make_tokenizer gets the set's tokenizer. Whether the file exists is not checked.
std::string tokenizer_path(const std::string& folder, const SetIndex& index);

// The attributes of a shard. InputError for values out of range.
struct ShardFacts {
  std::int64_t vocabulary = 0;
  std::int32_t end_of_document = 0;
  std::optional<std::string> tokenizer = {};
  std::optional<std::uint32_t> tokenizer_crc32c = {};
};
ShardFacts facts_of(const io::Hdf5File& file);

// Reads index.json of the folder. Without one, it takes the shards train/*.h5 and validation/*.h5, or *.h5 in the
// folder itself as train. Then it uses the shards' own attributes, and nothing but their shape can be checked.
// InputError when there is nothing to read.
SetIndex read_index(const std::string& folder);

// The shard set that a folder is a part of: "data" for "data/train", where data/index.json is. Else empty.
std::string set_around(const std::string& folder);

// A hash of the data alone: tokenizer, counts and checksums of tokens, answers and fields of every shard of both
// splits, in order. Without an index the checksums are checksums of samples.
std::string identity_of(const SetIndex& index);

}  // namespace trainyard::data
