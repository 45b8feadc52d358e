// Tokenizing: several threads split stretches of the input into documents and tokenize the documents. The results are
// passed on in order.
#pragma once

#include "libtrain/data/document_source.h"
#include "libtrain/data/shard_writer.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

enum class Split { train, validation };

// The split of a document, by a hash of its bytes.
Split split_of_document(std::string_view text, double validation_share);

// The documents of a stretch as tokens, one after the other.
struct TokenizedStretch {
  struct Document {
    Split split = Split::train;
    std::int64_t tokens = 0;   // with begin and end tokens
    std::int64_t answers = 0;  // ranges of `answers` that are its own
    TextHash hash = {};        // if the options ask for it
  };
  std::vector<Document> documents;
  std::vector<std::uint16_t> narrow;  // for a vocabulary that fits 16 bits; else wide is used
  std::vector<std::int32_t> wide;
  std::vector<AnswerSpan> answers;  // of conversations, counted from the first token of each
  std::vector<std::string> fields;  // as many for each document as are kept
  std::int64_t text_bytes = 0, unknown_tokens = 0;
  std::string source;

  // Calls each(document, tokens, facts) for every document. `tokens` are little-endian, in the type of the shards.
  using Each = std::function<void(const Document&, const void*, const DocumentFacts&)>;
  void for_each(const Each& each) const;
  // How many of a document's tokens are `token`; 0 for -1.
  std::int64_t unknown_of(const Document& document, const void* tokens, std::int32_t token) const;
};

struct TokenizingOptions {
  int threads = 1;          // including the caller's; fewer where the system has no more
  double validation = 0.0;  // share of documents
  std::size_t stretch_bytes = DocumentSource::stretch_bytes;
  bool hashes = false;  // of the texts of documents
};

// Reads the source to its end. Calls take() and refuse() in order, and progress() with the bytes read so far, all on
// the caller's thread. An exception from these or from the source ends it, once the other threads have finished their
// stretches. Memory: at most threads + 2 stretches (one for a single thread) with their tokens.
void tokenize(DocumentSource& source, const Tokenizer& tokenizer, const TokenizingOptions& options,
              const std::function<void(const TokenizedStretch&)>& take,
              const std::function<void(const Refusal&)>& refuse, const std::function<void(std::int64_t)>& progress);

}  // namespace trainyard::data
