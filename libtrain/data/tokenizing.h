// Tokenizing: several threads split stretches of the input into documents and tokenize these; what comes of them is
// handed on in order.
#pragma once

#include "libtrain/data/document_source.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

enum class Split { train, validation };

// By a hash of the document's bytes.
Split split_of_document(std::string_view text, double validation_share);

// The documents of a stretch as tokens, back to back.
struct TokenizedStretch {
  struct Document {
    Split split = Split::train;
    std::int64_t tokens = 0;  // with those that it begins and ends with
  };
  std::vector<Document> documents;
  std::vector<std::uint16_t> narrow;  // of a vocabulary that fits 16 bits; else
  std::vector<std::int32_t> wide;
  std::int64_t text_bytes = 0, unknown_tokens = 0;
  std::string source;

  // Calls each(split, tokens, count) for every document; `tokens` are little-endian, in the type that shards have.
  void for_each(const std::function<void(Split, const void*, std::int64_t)>& each) const;
};

struct TokenizingOptions {
  int threads = 1;          // the caller's is one of them; fewer where the system has no more
  double validation = 0.0;  // share of documents
  std::size_t stretch_bytes = DocumentSource::stretch_bytes;
};

// Reads the source to its end. take() and refuse() see all in order, progress() the bytes read so far, all of them on
// the caller's thread. What any of them or the source throws ends it, once threads have ended what they are at. In
// memory are at most threads + 2 stretches, one for one thread, with their tokens.
void tokenize(DocumentSource& source, const Tokenizer& tokenizer, const TokenizingOptions& options,
              const std::function<void(const TokenizedStretch&)>& take,
              const std::function<void(const Refusal&)>& refuse, const std::function<void(std::int64_t)>& progress);

}  // namespace trainyard::data
