// Finds the symbols of a piece in pages of code points; merges as MergeTable does.
#include "libtrain/data/bpe/character_merges.h"

#include "libtrain/base/index.h"
#include "libtrain/data/bpe/unicode_classes.h"

#include <algorithm>
#include <set>

namespace trainyard::data::bpe {

namespace {

constexpr char32_t all_code_points = 0x110000, word_mark = 0x2581;

// The character, if the token is one.
std::optional<char32_t> only_character(const std::string& token) {
  if (token.empty()) return {};
  const auto* at = token.data();
  const auto c = next_code_point(at);
  return at == token.data() + token.size() ? std::optional(c) : std::nullopt;
}

char32_t last_character(std::string_view text) {
  auto begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const auto* at = text.data() + begin;
  return next_code_point(at);
}

}  // namespace

CharacterMerges::CharacterMerges(const Definition& definition, Options options)
    : table_(definition.merges), options_(options), pages_(all_code_points / page, -1), bytes_(256, -1) {
  for (std::size_t id = 0; id < definition.tokens.size(); ++id) {
    const auto& token = definition.tokens[id];
    if (const auto c = only_character(token); c) {
      auto& at = pages_[*c / page];
      if (at < 0) at = static_cast<std::int32_t>(ids_.size()), ids_.resize(ids_.size() + page, -1);
      ids_[static_cast<std::size_t>(at) + *c % page] = static_cast<std::int32_t>(id);
    }
    // A token is written with capital digits only.
    if (const int byte = pieces::byte_of_token(token);
        byte >= 0 && pieces::byte_token(static_cast<unsigned char>(byte)) == token)
      base::at(bytes_, byte) = static_cast<std::int32_t>(id);
  }
  if (!options.ignore_merges) return;
  tokens_ = definition.tokens;
  whole_.emplace(tokens_);
}

// Unknown characters wait until a character with a token follows: so a run of them may become one token. Bytes do not
// end the wait, as in the reference.
void CharacterMerges::add_symbols(std::string_view piece, std::vector<std::int32_t>& ids) const {
  bool waits = false;
  for (const char *at = piece.data(), *const end = at + piece.size(); at != end;) {
    const auto* begin = at;
    const auto c = next_code_point(at);
    if (const auto id = token_of(c); id >= 0) {
      if (waits) ids.push_back(options_.unknown), waits = false;
      ids.push_back(id);
      continue;
    }
    const auto byte_token = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
    if (options_.byte_fallback && std::all_of(begin, at, [&](char b) { return byte_token(b) >= 0; })) {
      for (const auto* b = begin; b != at; ++b) ids.push_back(byte_token(*b));
      continue;
    }
    if (options_.unknown < 0) continue;
    if (waits && !options_.fuse_unknown) ids.push_back(options_.unknown);
    waits = true;
  }
  if (waits) ids.push_back(options_.unknown);
}

void CharacterMerges::encode(std::string_view piece, pieces::Model::Memory& memory,
                             std::vector<std::int32_t>& out) const {
  if (whole_)
    if (const auto found = whole_->find(piece); found) return out.push_back(*found);
  auto& m = static_cast<Memory&>(memory);
  m.ids.clear();
  add_symbols(piece, m.ids);
  table_.merge(m, out);
}

std::optional<WordBorders> word_borders(const Definition& d, const CharacterMerges::Options& options) {
  if (options.ignore_merges) return {};
  const auto has_mark = std::any_of(d.tokens.begin(), d.tokens.end(), [](const auto& t) { return t == "\u2581"; });
  if (!has_mark) return {};
  std::set<char32_t> joined;
  for (const auto& m : d.merges) {
    const auto &left = base::at(d.tokens, m.left), &right = base::at(d.tokens, m.right);
    for (const auto* half : {&left, &right})
      if (pieces::byte_of_token(*half) >= 0 || m.left == options.unknown || m.right == options.unknown) return {};
    if (right.starts_with("\u2581")) joined.insert(last_character(left));
  }
  joined.erase(word_mark);
  return WordBorders{{joined.begin(), joined.end()}};
}

}  // namespace trainyard::data::bpe
