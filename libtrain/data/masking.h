// Masking: which tokens of a window a model has to find again, and what it sees in their places (Devlin et al. 2019,
// "BERT", section 3.1).
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/data/window_ptrs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::data {

// What is chosen by one draw: a token, or a word with all of its tokens.
enum class Chosen { tokens, words };

struct Masking {
  double rate = 0.15;                     // of tokens, or of words, above 0 and up to 1
  std::int32_t mask_token = 0;            // what stands for a hidden token
  std::int64_t vocabulary = 0;            // of the data: random tokens are below
  std::int32_t end_of_document = 0;       // never chosen
  std::vector<std::uint8_t> word_starts;  // 1 for each token of the data that begins a word; empty: Chosen::tokens
  std::int32_t begin_of_document = -1;    // never chosen, where there is one
};

// The tokenizer's own sign for a hidden token, where the set's tokenizer is to be had and has one; else an id of its
// own, the first behind the set's vocabulary.
std::int64_t mask_token_of(const std::string& folder, const SetIndex& index);

// Of a set. InputError where words are asked for and the set's tokenizer, which alone knows them, is not to be had.
Masking masking_of(const std::string& folder, const SetIndex& index, double rate, Chosen chosen,
                   std::int32_t mask_token);

// Numbers that say what is hidden: no rank, thread or cut is among them.
struct MaskDraws {
  std::uint64_t seed = 0, site = 0, sample = 0;
  static MaskDraws of_training(std::uint64_t seed, std::uint64_t sample);
  static MaskDraws of_evaluation(std::uint64_t window);
};

// On entry window.tokens holds the first `n` tokens. On return it holds what the model sees, targets what stood there,
// and weights 1 at chosen places, 0 elsewhere. With w the four words of random_words(seed + sample *
// 0x9E3779B97F4A7C15, site, t) of position t: it is chosen when w[0] is below floor(rate * 2^32). Where words are
// chosen that of a word's first token decides; a window, and what follows an end of document, begins one. Where nothing
// was chosen the one with the lowest w[0] is, the first of equals. A chosen place gets the mask token when w[1] is
// below floor(0.8 * 2^32), else token floor(w[2] * vocabulary / 2^32) when it is below floor(0.9 * 2^32), else it stays
// as it is.
void mask_tokens(const Masking& masking, const MaskDraws& draws, std::int64_t n, const WindowPtrs& window);

}  // namespace trainyard::data
