// Masking: which tokens of a window a masked model has to predict, and what it sees in their places (Devlin et al.
// 2019, "BERT", section 3.1).
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/data/window_ptrs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::data {

// What one draw chooses: a token, or a word with all of its tokens.
enum class Chosen { tokens, words };

struct Masking {
  double rate = 0.15;                     // share of tokens, or of words, above 0 and up to 1
  std::int32_t mask_token = 0;            // replaces a hidden token
  std::int64_t vocabulary = 0;            // vocabulary of the data: random tokens are below it
  std::int32_t end_of_document = 0;       // never chosen
  std::vector<std::uint8_t> word_starts;  // 1 for each token of the data that begins a word; empty: Chosen::tokens
  std::int32_t begin_of_document = -1;    // never chosen; -1: none
};

// The mask token: the tokenizer's own, where the set's tokenizer is available and has one. Otherwise a new id, the
// first one after the set's vocabulary.
std::int64_t mask_token_of(const std::string& folder, const SetIndex& index);

// The masking of a set. InputError where words are asked for and the set's tokenizer is not available, because only the
// tokenizer knows words.
Masking masking_of(const std::string& folder, const SetIndex& index, double rate, Chosen chosen,
                   std::int32_t mask_token);

// The numbers that decide what is hidden. They do not depend on rank, thread or parallel layout.
struct MaskDraws {
  std::uint64_t seed = 0, site = 0, sample = 0;
  static MaskDraws of_training(std::uint64_t seed, std::uint64_t sample);
  static MaskDraws of_evaluation(std::uint64_t window);
};

// On entry window.tokens holds the first `n` tokens. On return it holds what the model sees, targets holds the original
// tokens, and weights are 1 at chosen places, 0 elsewhere. Position t has the four words w of random_words(seed +
// sample * 0x9E3779B97F4A7C15, site, t).
// - A position is chosen when w[0] is below floor(rate * 2^32).
// - Where words are chosen, the draw of a word's first token decides. The first token of a window, and the first after
//   an end or begin of document, begins a word.
// - If no position was chosen, the one with the lowest w[0] is, the first of equals.
// - A chosen place gets the mask token when w[1] is below floor(0.8 * 2^32). Otherwise it gets token floor(w[2] *
//   vocabulary / 2^32) when w[1] is below floor(0.9 * 2^32). Otherwise it stays as it is.
void mask_tokens(const Masking& masking, const MaskDraws& draws, std::int64_t n, const WindowPtrs& window);

}  // namespace trainyard::data
