// Tokenizing: several threads split stretches of the input into documents and tokenize the documents. The results are
// passed on in order.
#pragma once

#include "libtrain/data/document_source.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>
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
    std::int64_t tokens = 0;  // with begin and end tokens
  };
  std::vector<Document> documents;
  std::vector<std::uint16_t> narrow;  // for a vocabulary that fits 16 bits; else wide is used
  std::vector<std::int32_t> wide;
  std::int64_t text_bytes = 0, unknown_tokens = 0;
  std::string source;

  // Calls each(split, tokens, count) for every document. `tokens` are little-endian, in the type of the shards.
  void for_each(const std::function<void(Split, const void*, std::int64_t)>& each) const;
};

struct TokenizingOptions {
  int threads = 1;          // including the caller's; fewer where the system has no more
  double validation = 0.0;  // share of documents
  std::size_t stretch_bytes = DocumentSource::stretch_bytes;
};

// Reads the source to its end. Calls take() and refuse() in order, and progress() with the bytes read so far, all on
// the caller's thread. An exception from these or from the source ends it, once the other threads have finished their
// stretches. Memory: at most threads + 2 stretches (one for a single thread) with their tokens.
void tokenize(DocumentSource& source, const Tokenizer& tokenizer, const TokenizingOptions& options,
              const std::function<void(const TokenizedStretch&)>& take,
              const std::function<void(const Refusal&)>& refuse, const std::function<void(std::int64_t)>& progress);

}  // namespace trainyard::data
