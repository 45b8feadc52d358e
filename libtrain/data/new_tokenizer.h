// NewTokenizer: a tokenizer that is trained on the documents of a source.
#pragma once

#include "libtrain/data/document_source.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

enum class TokenizerKind {
  bpe,               // byte-level BPE, with the pattern of Llama 3
  bpe_gpt2,          // byte-level BPE, with the pattern of GPT-2
  unigram,           // SentencePiece
  sentencepiece_bpe  // SentencePiece
};

struct TokenizerPlan {
  TokenizerKind kind = TokenizerKind::bpe;
  std::int64_t vocabulary = 0;            // tokens, with special ones
  std::vector<std::string> special = {};  // texts of special tokens; without <unk>, <s> and </s> of SentencePiece
  bool by_sentencepiece() const { return kind == TokenizerKind::unigram || kind == TokenizerKind::sentencepiece_bpe; }
};

// Reads "bpe:32000", "bpe-gpt2:50257", "unigram:8000" or "sentencepiece-bpe:8000", with special tokens beside the ones
// that every tokenizer of the kind has. UsageError names $train-tokenizer or $special-token: for another text, a
// vocabulary that cannot be, and a token that is empty, too long or there already.
TokenizerPlan tokenizer_plan(const std::string& kind_and_vocabulary, const std::vector<std::string>& special = {});
// Whether the trained tokenizer will have a special token of this text.
bool has_special(const TokenizerPlan& plan, const std::string& token);

// The sample that a kind uses where none is given.
std::int64_t usual_sample(TokenizerKind kind);
std::string name_of(TokenizerKind kind);       // "bpe"
const char* file_name_of(TokenizerKind kind);  // "tokenizer.json", or "tokenizer.model"

struct TrainingText {
  std::int64_t sample = 0;                           // bytes of text at most
  int threads = 1;                                   // that read and split; the tokenizer does not depend on them
  bool deduplicate = false;                          // equal documents count once
  std::size_t stretch_bytes = std::size_t{1} << 20;  // the tokenizer does not depend on it
};

struct TrainingProgress {
  std::function<void(std::int64_t bytes)> reading;  // of the inputs
  // Tokens of the vocabulary so far. With SentencePiece, which does not say, 0.
  std::function<void(std::int64_t tokens)> training;
};

struct NewTokenizer {
  std::string model;  // bytes of the file
  std::int64_t documents = 0, text_bytes = 0, sample_bytes = 0;
  std::int64_t words = 0;         // different ones; 0 with SentencePiece, which does not say
  std::int64_t words_memory = 0;  // bytes of memory that counting them took
};

// Reads the source to its end, and trains. The same bytes for every number of threads, size of stretches and form of
// input that gives the same documents. Refused documents are left out; see DocumentSource::settle. InputError where the
// text is too small for the vocabulary. SentencePiece cannot be interrupted: then an exception of `training` leaves it
// behind on its thread, and the process should end.
NewTokenizer train_tokenizer(DocumentSource& source, const TokenizerPlan& plan, const TrainingText& text,
                             const std::function<void(const Refusal&)>& refuse, const TrainingProgress& progress);

}  // namespace trainyard::data
