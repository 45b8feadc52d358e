// ShardWriter: collects documents into shards of a stated number of tokens.
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

// What the index of a set says before it has shards.
SetIndex index_for(const Tokenizer& tokenizer);

// Writes FOLDER/SPLIT/shard-00000.h5, ... A document never crosses shards unless it alone is longer than one (then its
// parts are documents of their own shard). A shard is closed when the next document would pass `shard_tokens`. Memory:
// one shard's tokens. FOLDER must exist (base::AtomicFolder).
class ShardWriter {
 public:
  ShardWriter(std::string folder, std::string split, const Tokenizer& tokenizer, std::int64_t shard_tokens);
  // `document` ends with the end of document; `source` says where it came from (empty: not recorded).
  void add(std::span<const std::int32_t> document, const std::string& source = "");
  std::vector<ShardEntry> finish();  // writes what is left
  std::int64_t tokens() const { return total_tokens_; }
  std::int64_t documents() const { return total_documents_; }

 private:
  void write_shard();

  std::string folder_, split_;
  const Tokenizer& tokenizer_;
  std::int64_t shard_tokens_, total_tokens_ = 0, total_documents_ = 0;
  base::DType dtype_;
  std::vector<char> tokens_;  // encoded in dtype_
  std::vector<std::uint64_t> offsets_{0};
  std::string sources_, last_source_;  // what /sources will hold
  std::vector<ShardEntry> entries_;
};

}  // namespace trainyard::data
