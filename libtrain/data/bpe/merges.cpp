// Looks the merges of adjacent bytes up in a table of their own.
#include "libtrain/data/bpe/merges.h"

#include "libtrain/base/error.h"

#include <algorithm>

namespace trainyard::data::bpe {

Merges::Merges(const Definition& definition) : table_(definition.merges) {
  std::array<bool, 256> seen{};
  for (std::size_t id = 0; id < definition.tokens.size(); ++id)
    if (const auto& token = definition.tokens[id]; token.size() == 1) {
      const auto byte = static_cast<unsigned char>(token[0]);
      bytes_[byte] = static_cast<std::int32_t>(id), seen[byte] = true;
    }
  TRAINYARD_ASSERT(std::all_of(seen.begin(), seen.end(), [](bool s) { return s; }), "a byte without a token");
  of_bytes_.reserve(256 * 256);
  for (const auto left : bytes_)
    for (const auto right : bytes_) of_bytes_.push_back(table_.known(left, right));
  if (!definition.ignore_merges) return;
  tokens_ = definition.tokens;
  whole_.emplace(tokens_);
}

void Merges::encode(std::string_view piece, pieces::Model::Memory& memory, std::vector<std::int32_t>& out) const {
  if (whole_)
    if (const auto found = whole_->find(piece); found) return out.push_back(*found);
  const auto n = piece.size();
  if (n <= MergeTable::longest_short) {
    MergeTable::Short symbols;
    for (std::size_t i = 0; i < n; ++i) symbols.ids[i] = bytes_[static_cast<unsigned char>(piece[i])];
    for (std::size_t i = 0; i + 1 < n; ++i) symbols.pairs[i] = known_of_bytes(piece[i], piece[i + 1]);
    return table_.merge_short(symbols, n, out);
  }
  auto& m = static_cast<Memory&>(memory);
  m.ids.resize(n);
  for (std::size_t i = 0; i < n; ++i) m.ids[i] = bytes_[static_cast<unsigned char>(piece[i])];
  table_.merge(m, out);
}

}  // namespace trainyard::data::bpe
