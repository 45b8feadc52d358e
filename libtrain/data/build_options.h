// What a shard set is built with, and what came of it.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/data/document_source.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::data {

struct BuildOptions {
  std::string output;
  std::int64_t shard_tokens = std::int64_t{64} << 20;
  double validation = 0.01;        // share of documents, chosen by a hash of their bytes
  double largest_rejected = 0.01;  // share of documents that may be refused
  // File for refusals; it must be outside of `output`. If empty, or with Writing::off, refusals are only counted.
  std::string rejects;
  int threads = 1;
  // replace: an existing shard set is replaced if this program wrote it (own_set.h), and nothing else is.
  base::Existing existing = base::Existing::refuse;
  // Inputs besides the source's inputs (lists, a tokenizer's model), which are never replaced.
  std::vector<std::string> precious = {};
  std::size_t stretch_bytes = DocumentSource::stretch_bytes;  // the set does not depend on it
  enum class Writing { on, off } writing = Writing::on;       // off: --dry-run
  std::int64_t pack = 0;     // tokens of the sequences that documents are packed into (packing.h); 0: they are not
  bool deduplicate = false;  // of equal documents the first is kept
  std::vector<std::string> fields = {};  // whose values are kept beside documents
  bool chat = false;                     // the source holds conversations, so shards say which tokens are answers
  bool pairs = false;                    // it holds pairs: the same, and no document is cut
  bool marks_answers() const { return chat || pairs; }
};

struct BuildResult {
  std::int64_t documents = 0, rejected = 0, text_bytes = 0;
  std::int64_t unknown_tokens = 0;  // in both splits: text for which the tokenizer has no token
  std::int64_t empty = 0;           // documents of white space or nothing: left out, but not counted as rejected
  std::int64_t too_long = 0;        // pairs above a limit that was asked for: likewise
  std::int64_t train_tokens = 0, validation_tokens = 0, train_shards = 0, validation_shards = 0;
  std::int64_t duplicates = 0;              // documents that were left out because an equal one came before
  std::int64_t sequences = 0, padding = 0;  // of a packed set: sequences in both splits, and tokens that fill them
  std::int64_t cut = 0;                     // documents that are longer than such a sequence
  std::vector<Refusal> first_refusals;      // at most first_refusals_kept
  std::vector<std::string> absent_fields;   // of those that are kept: no document has a value
};
inline constexpr std::size_t first_refusals_kept = 3;
std::string text_of(const Refusal& refusal);  // "a.jsonl, line 7: no key 'text'"
// "none refused", "3 documents refused and left out", "none refused, 2 empty documents left out"
std::string left_out_text(const BuildResult& result);

// Paths that a set may never replace.
std::vector<std::string> precious_of(const DocumentSource& source, const BuildOptions& options);

}  // namespace trainyard::data
