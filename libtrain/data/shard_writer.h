// ShardWriter: collects documents into shards with a given number of tokens.
#pragma once

#include "libtrain/data/chat_template.h"
#include "libtrain/data/document_fields.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/text_hash.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace trainyard::data {

// The index of a set that has no shards yet.
SetIndex index_for(const Tokenizer& tokenizer);

// What is known of a document beside its tokens.
struct DocumentFacts {
  std::span<const AnswerSpan> answers = {};  // ascending ranges of its tokens
  TextHash hash = {};                        // of its text, where it is wanted
  std::span<const std::string> fields = {};  // values of the fields that the set keeps
};

// A shard in memory.
struct Shard {
  std::string name;                             // relative to the set's folder
  std::vector<std::unique_ptr<char[]>> blocks;  // io::block_bytes each: tokens, little-endian, in the set's type
  std::int64_t token_bytes = 0;
  std::vector<std::uint64_t> offsets{0};
  std::string sources;                                     // content of /sources
  std::optional<std::vector<std::uint64_t>> answers = {};  // begin and end of each; nothing: they are not marked
  // Of each document, for the parts of a set; {0, 0} of a piece that goes on. Nothing: they are not kept.
  std::optional<std::vector<TextHash>> hashes = {};
  DocumentFields fields = {};
  void append(const char* tokens, std::int64_t bytes);
};

// Writes whole shards of a set, one at a time, on a thread of its own. The next shard can be filled at the same time.
class ShardFiles {
 public:
  ShardFiles(std::string folder, const Tokenizer& tokenizer) : folder_(std::move(folder)), tokenizer_(tokenizer) {}
  ~ShardFiles() { join(); }  // errors of the last write are lost
  ShardFiles(const ShardFiles&) = delete;
  // Waits for the previous shard, and throws what its writing threw. `entry` is filled when the next wait() returns.
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

// Writes FOLDER/SPLIT/shard-00000.h5, ... A document is never divided between shards unless it is longer than a shard.
// Then each part is a document of its shard, or with keep_whole() the document is a shard of its own. A shard is closed
// when the next document would exceed `shard_tokens`. Memory: one shard's tokens, and one more shard for all writers
// that share `files`. FOLDER must exist (base::AtomicFolder).
class ShardWriter {
 public:
  ShardWriter(std::string folder, std::string split, const Tokenizer& tokenizer, std::int64_t shard_tokens)
      : ShardWriter(std::make_shared<ShardFiles>(std::move(folder), tokenizer), std::move(split), tokenizer,
                    shard_tokens) {}
  ShardWriter(std::shared_ptr<ShardFiles> files, std::string split, const Tokenizer& tokenizer,
              std::int64_t shard_tokens);
  // Both come first: all shards say which tokens are answers; all shards have the hashes of their documents.
  void mark_answers();
  void keep_hashes();
  void keep_fields(const std::vector<std::string>& names);  // likewise
  void keep_whole() { keeps_whole_ = true; }                // a document longer than a shard is not split
  ~ShardWriter() { files_->join(); }                        // the thread may be writing a shard of this writer
  ShardWriter(const ShardWriter&) = delete;
  // `document` ends with the end-of-document token. `source` names its input (empty: not recorded).
  void add(std::span<const std::int32_t> document, const std::string& source = "", const DocumentFacts& facts = {});
  // The same for tokens in the type of the shards (16 bits where the vocabulary fits), little-endian.
  void add(const void* tokens, std::int64_t count, const std::string& source, const DocumentFacts& facts = {});
  // A piece of a document, from its token `first` on. `facts` are of the whole document.
  struct Piece {
    const char* tokens = nullptr;
    std::int64_t count = 0, first = 0;
    const std::string& source;
    const DocumentFacts& facts;
  };
  // Both let the caller decide where shards end: the piece is a document of the open shard; the open shard is written.
  void add_piece(const Piece& piece);
  void close_shard();
  std::int64_t held() const { return static_cast<std::int64_t>(shard_.offsets.back()); }  // tokens of the open shard
  std::int64_t shard_tokens() const { return shard_tokens_; }
  // The tokens in the type of the shards; valid until the next call.
  const void* stored(std::span<const std::int32_t> tokens);
  std::int64_t token_bytes() const { return base::size_of(dtype_); }
  std::vector<ShardEntry> finish();  // writes the rest; then all is durable
  std::int64_t tokens() const { return total_tokens_; }
  std::int64_t documents() const { return total_documents_; }

 private:
  std::shared_ptr<ShardFiles> files_;
  std::string split_;
  std::int64_t shard_tokens_, total_tokens_ = 0, total_documents_ = 0;
  base::DType dtype_;
  Shard shard_;
  bool marks_answers_ = false, keeps_hashes_ = false, keeps_whole_ = false;
  std::vector<std::string> fields_;
  std::string last_source_;
  std::vector<std::uint16_t> narrowed_;
  std::deque<ShardEntry> entries_;  // a deque: references to entries stay valid
};

}  // namespace trainyard::data
