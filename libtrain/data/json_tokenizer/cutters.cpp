// What cutters need that is no template.
#include "libtrain/data/json_tokenizer/cutters.h"

#include "libtrain/data/bpe/byte_alphabet.h"

#include <algorithm>

namespace trainyard::data::json_tokenizer {

void AlphabetCutter::append(std::string_view piece, std::string& out) {
  for (const char c : piece) out += bpe::character_of(static_cast<unsigned char>(c));
}

std::span<const Cutter> steps_before_prefix(std::span<const Cutter> cutters) {
  const auto puts = [](const Cutter& cutter) {
    return std::holds_alternative<MetaspaceCutter>(cutter) || std::holds_alternative<PrefixSpaceCutter>(cutter);
  };
  return cutters.first(base::size(std::find_if(cutters.begin(), cutters.end(), puts) - cutters.begin()));
}

bool BorderCutter::is_border(std::string_view piece, std::size_t at) const {
  if (piece.substr(0, at).ends_with(mark)) return false;
  auto begin = at - 1;
  while (begin > 0 && (static_cast<unsigned char>(piece[begin]) & 0xC0) == 0x80) --begin;
  const auto* before = piece.data() + begin;
  return joined.empty() || !std::binary_search(joined.begin(), joined.end(), bpe::next_code_point(before));
}

}  // namespace trainyard::data::json_tokenizer
