// Unigram: the tokens of the highest sum of scores, by Viterbi, as in T5 and XLM-R.
#pragma once

#include "libtrain/data/pieces/byte_trie.h"
#include "libtrain/data/pieces/model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::data::pieces {

class Unigram : public Model {
 public:
  // With byte_fallback, text without a token becomes tokens of bytes, where all of them exist.
  Unigram(std::vector<std::string> tokens, std::vector<double> scores, std::int32_t unknown, bool byte_fallback);

  std::unique_ptr<Model::Memory> memory() const override { return std::make_unique<Memory>(); }
  void encode(std::string_view piece, Model::Memory& memory, std::vector<std::int32_t>& append_to) const override;

 private:
  // The best way to the end of a byte: its sum, and its last token.
  struct Best {
    double score = 0;
    std::int32_t token = 0;
    std::uint32_t begin = none;
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Found {
    std::int32_t token;
    std::uint32_t begin, end;
  };
  struct Memory : public Model::Memory {
    std::vector<Best> best;
    std::vector<Found> found;
  };
  void find_best(std::string_view piece, std::vector<Best>& best) const;
  void append_unknown(std::string_view text, std::vector<std::int32_t>& out) const;

  ByteTrie trie_;
  std::vector<double> scores_;  // by token
  std::vector<std::int32_t> bytes_;
  std::int32_t unknown_;  // -1: text without a token is refused
  double unknown_score_;
  bool byte_fallback_;
};

}  // namespace trainyard::data::pieces
