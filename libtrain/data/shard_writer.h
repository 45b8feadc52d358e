// ShardWriter: collects documents into shards of a stated number of tokens.
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace trainyard::data {

// What the index of a set says before it has shards.
SetIndex index_for(const Tokenizer& tokenizer);

// A shard in memory.
struct Shard {
  std::string name;                             // relative to the set's folder
  std::vector<std::unique_ptr<char[]>> blocks;  // of io::block_bytes each: tokens, little-endian, in the set's type
  std::int64_t token_bytes = 0;
  std::vector<std::uint64_t> offsets{0};
  std::string sources;  // what /sources will hold
  void append(const char* tokens, std::int64_t bytes);
};

// Writes whole shards of a set, one at a time, on a thread of its own, so that the next can be filled meanwhile.
class ShardFiles {
 public:
  ShardFiles(std::string folder, const Tokenizer& tokenizer) : folder_(std::move(folder)), tokenizer_(tokenizer) {}
  ~ShardFiles() { join(); }  // what failed then is lost
  ShardFiles(const ShardFiles&) = delete;
  // Waits for the shard before, and throws what its writing threw. `entry` is filled by the time of the next wait().
  void write(Shard&& shard, ShardEntry& entry);
  void wait();
  void join() noexcept;  // waits, and throws nothing

 private:
  ShardEntry write_now(const Shard& shard) const;

  std::string folder_;
  const Tokenizer& tokenizer_;
  Shard shard_;
  std::exception_ptr failure_;
  std::thread thread_;
};

// Writes FOLDER/SPLIT/shard-00000.h5, ... A document never crosses shards unless it alone is longer than one (then its
// parts are documents of their own shard). A shard is closed when the next document would pass `shard_tokens`. Memory:
// one shard's tokens, and one for all writers that share `files`. FOLDER must exist (base::AtomicFolder).
class ShardWriter {
 public:
  ShardWriter(std::string folder, std::string split, const Tokenizer& tokenizer, std::int64_t shard_tokens)
      : ShardWriter(std::make_shared<ShardFiles>(std::move(folder), tokenizer), std::move(split), tokenizer,
                    shard_tokens) {}
  ShardWriter(std::shared_ptr<ShardFiles> files, std::string split, const Tokenizer& tokenizer,
              std::int64_t shard_tokens);
  ~ShardWriter() { files_->join(); }  // what is being written may be of this one
  ShardWriter(const ShardWriter&) = delete;
  // `document` ends with the end of document; `source` says where it came from (empty: not recorded).
  void add(std::span<const std::int32_t> document, const std::string& source = "");
  // The same of tokens in the type that shards have (16 bits where the vocabulary fits), little-endian.
  void add(const void* tokens, std::int64_t count, const std::string& source);
  std::vector<ShardEntry> finish();  // writes what is left; all is durable then
  std::int64_t tokens() const { return total_tokens_; }
  std::int64_t documents() const { return total_documents_; }

 private:
  void close_shard();

  std::shared_ptr<ShardFiles> files_;
  std::string split_;
  std::int64_t shard_tokens_, total_tokens_ = 0, total_documents_ = 0;
  base::DType dtype_;
  Shard shard_;
  std::string last_source_;
  std::vector<std::uint16_t> narrowed_;
  std::deque<ShardEntry> entries_;  // a reference to one outlives others that are added
};

}  // namespace trainyard::data
