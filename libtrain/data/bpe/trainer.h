// Trainer: finds the merges of a byte-level BPE from the words of a text.
#pragma once

#include "libtrain/data/bpe/definition.h"
#include "libtrain/data/bpe/scanner.h"
#include "libtrain/data/bpe/word_counts.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data::bpe {

struct TrainerOptions {
  std::int64_t vocabulary = 0;       // tokens at most: special tokens, 256 bytes and merges
  std::vector<std::string> special;  // they get the first ids
  // Called now and then with the number of tokens so far. If it throws, the training ends.
  std::function<void(std::int64_t tokens)> progress = {};
};

struct Training {
  std::vector<std::string> tokens;  // bytes by id: special tokens, the bytes in the order of their characters, merges
  std::vector<Merge> merges;        // in order of rank
};

// The most frequent pair of neighbours becomes a token, and again, until the vocabulary is full or no word has two
// tokens. Of equally frequent pairs the one with the smaller left id is first, then the one with the smaller right id.
// So the result depends on the counts alone. It equals that of BpeTrainer in the package `tokenizers`. Exception: no
// merge makes the text of a special token.
// Memory: 12 to 20 bytes for each byte of the different words.
Training train(const WordCounts& words, const TrainerOptions& options);

// The tokenizer.json that this package and `tokenizers` read.
std::string tokenizer_json(const Training& training, std::int64_t special, Scanner::Rules pattern);

}  // namespace trainyard::data::bpe
