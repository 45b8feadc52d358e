// Builder: from documents to a shard set, several threads tokenizing, the same bytes for any number of them.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

struct BuildOptions {
  std::string output;
  std::int64_t shard_tokens = std::int64_t{64} << 20;
  double validation = 0.01;        // share of documents, chosen by a hash of their bytes
  double largest_rejected = 0.01;  // share of documents that may be refused
  std::string rejects;             // file for refusals, outside of `output`; empty, or with Writing::off: counted only
  int threads = 1;
  base::Existing existing =
      base::Existing::refuse;  // replace: a shard set that this program wrote (own_set.h), nothing else
  std::vector<std::string> precious =
      {};  // inputs beside those of the source (lists, a tokenizer's model): never replaced
  std::size_t stretch_bytes = DocumentSource::stretch_bytes;  // the set does not depend on it
  enum class Writing { on, off } writing = Writing::on;       // off: --dry-run
};

struct BuildResult {
  std::int64_t documents = 0, rejected = 0, text_bytes = 0;
  std::int64_t unknown_tokens = 0;  // text that the tokenizer has no token for, in both splits
  std::int64_t empty = 0;           // white space or nothing: left out, and not among the rejected
  std::int64_t train_tokens = 0, validation_tokens = 0, train_shards = 0, validation_shards = 0;
  std::vector<Refusal> first_refusals;  // at most first_refusals_kept
};
inline constexpr std::size_t first_refusals_kept = 3;
std::string text_of(const Refusal& refusal);  // "a.jsonl, line 7: no key 'text'"
// "none refused", "3 documents refused and left out", "none refused, 2 empty documents left out"
std::string left_out_text(const BuildResult& result);

// What a set may never replace.
std::vector<std::string> precious_of(const DocumentSource& source, const BuildOptions& options);

// Stretches of the input are read, split and tokenized by the threads, and appended in order. Memory: three shards'
// tokens (one for each split, one that is written) and that of tokenize(). The set appears whole under options.output
// or not at all; a tokenizer's model comes along. InputError (exit 3) when more than the allowed share was refused or
// nothing is left; then nothing is published, but the rejects file is. `progress` is called now and then with the bytes
// read so far.
BuildResult build_shards(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                         const std::function<void(std::int64_t)>& progress);

}  // namespace trainyard::data
