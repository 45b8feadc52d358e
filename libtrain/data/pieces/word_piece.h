// WordPiece: the longest token at each place of a word, as in BERT.
#pragma once

#include "libtrain/data/pieces/byte_trie.h"
#include "libtrain/data/pieces/model.h"

#include <string>
#include <vector>

namespace trainyard::data::pieces {

class WordPiece : public Model {
 public:
  struct Options {
    std::string continuing_prefix = "##";  // before tokens inside a word
    std::int64_t longest_word = 100;       // in characters; longer words are unknown
    std::int32_t unknown = 0;              // for a word of which any part has no token
  };
  WordPiece(const std::vector<std::string>& tokens, Options options);

  std::unique_ptr<Memory> memory() const override { return std::make_unique<Memory>(); }
  void encode(std::string_view piece, Memory& memory, std::vector<std::int32_t>& append_to) const override;

 private:
  ByteTrie trie_;
  Options options_;
  std::uint32_t inside_;  // the node of the prefix; 0: no token has it
};

}  // namespace trainyard::data::pieces
