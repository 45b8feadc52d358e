// Merges: turns the bytes of a piece into tokens.
#pragma once

#include "libtrain/data/bpe/merge_table.h"
#include "libtrain/data/bpe/token_index.h"
#include "libtrain/data/pieces/model.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

class Merges : public pieces::Model {
 public:
  // Every byte must be a token of `definition`.
  explicit Merges(const Definition& definition);

  struct Memory : public pieces::Model::Memory, MergeTable::Memory {};
  std::unique_ptr<pieces::Model::Memory> memory() const override { return std::make_unique<Memory>(); }
  void encode(std::string_view piece, pieces::Model::Memory& memory,
              std::vector<std::int32_t>& append_to) const override;

 private:
  MergeTable::Known known_of_bytes(char left, char right) const {
    return of_bytes_[static_cast<unsigned char>(left) * std::size_t{256} + static_cast<unsigned char>(right)];
  }

  MergeTable table_;
  std::array<std::int32_t, 256> bytes_{};    // the token of each byte
  std::vector<MergeTable::Known> of_bytes_;  // for two adjacent bytes, as at the start of every piece
  std::vector<std::string> tokens_;          // with ignore_merges
  std::optional<TokenIndex> whole_;          // the same
};

}  // namespace trainyard::data::bpe
