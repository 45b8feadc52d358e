// CharacterMerges: BPE of characters, with tokens of bytes for characters that have none, as in Llama 2 and Gemma.
#pragma once

#include "libtrain/data/bpe/merge_table.h"
#include "libtrain/data/bpe/token_index.h"
#include "libtrain/data/pieces/model.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

class CharacterMerges : public pieces::Model {
 public:
  struct Options {
    bool ignore_merges = false, byte_fallback = false, fuse_unknown = false;
    std::int32_t unknown = -1;  // -1: characters without a token are dropped
  };
  CharacterMerges(const Definition& definition, Options options);

  std::unique_ptr<pieces::Model::Memory> memory() const override { return std::make_unique<Memory>(); }
  void encode(std::string_view piece, pieces::Model::Memory& memory,
              std::vector<std::int32_t>& append_to) const override;

 private:
  struct Memory : public pieces::Model::Memory, MergeTable::Memory {};
  static constexpr std::size_t page = 256;
  std::int32_t token_of(char32_t c) const {
    const auto at = pages_[c / page];
    return at < 0 ? -1 : ids_[static_cast<std::size_t>(at) + c % page];
  }
  void add_symbols(std::string_view piece, std::vector<std::int32_t>& ids) const;

  MergeTable table_;
  Options options_;
  std::vector<std::int32_t> pages_, ids_;  // the token of each character
  std::vector<std::int32_t> bytes_;        // the token of each byte; -1: none
  std::vector<std::string> tokens_;        // with ignore_merges
  std::optional<TokenIndex> whole_;        // the same
};

// Where no merge joins what is before the mark (U+2581) and the mark: text may be divided there without changing a
// token. Characters after which a merge may cross are `joined`. Nothing: no such place is sure.
struct WordBorders {
  std::u32string joined;  // ascending
};
std::optional<WordBorders> word_borders(const Definition& definition, const CharacterMerges::Options& options);

}  // namespace trainyard::data::bpe
