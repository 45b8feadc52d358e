// Adds scores in the order of the reference, so that sums that are nearly equal compare as they do there.
#include "libtrain/data/pieces/unigram.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"

#include <algorithm>

namespace trainyard::data::pieces {

namespace {

constexpr double unknown_penalty = 10;
constexpr std::size_t kept_positions = 64 << 10;

std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

Unigram::Unigram(std::vector<std::string> tokens, std::vector<double> scores, std::int32_t unknown, bool byte_fallback)
    : trie_(tokens), scores_(std::move(scores)), bytes_(256, -1), unknown_(unknown),
      unknown_score_(*std::min_element(scores_.begin(), scores_.end()) - unknown_penalty),
      byte_fallback_(byte_fallback) {
  for (int byte = 0; byte < 256; ++byte)
    if (const auto node = trie_.find(byte_token(static_cast<unsigned char>(byte))); node != 0)
      base::at(bytes_, byte) = trie_.token(node);
}

void Unigram::find_best(std::string_view piece, std::vector<Best>& best) const {
  best.assign(piece.size() + 1, Best());
  for (std::size_t at = 0; at < piece.size();) {
    const auto score = best[at].score;
    const auto first = character_bytes(piece[at]);
    bool has_single = false;
    auto node = ByteTrie::root;
    for (auto end = at; end < piece.size();) {
      node = trie_.child(node, static_cast<unsigned char>(piece[end++]));
      if (node == 0) break;
      const auto token = trie_.token(node);
      if (token < 0) continue;
      auto& target = best[end];
      if (const auto sum = base::at(scores_, token) + score; target.begin == none || sum > target.score)
        target = {sum, token, static_cast<std::uint32_t>(at)};
      has_single |= end - at == first;
    }
    if (!has_single) {
      auto& target = best[at + first];
      if (const auto sum = unknown_score_ + score; target.begin == none || sum > target.score)
        target = {sum, std::max(unknown_, 0), static_cast<std::uint32_t>(at)};
    }
    at += first;
  }
}

// A token of the text (the name of the unknown token may stand in it), else bytes, else the unknown token.
void Unigram::append_unknown(std::string_view text, std::vector<std::int32_t>& out) const {
  if (const auto node = trie_.find(text); node != 0 && trie_.token(node) >= 0) return out.push_back(trie_.token(node));
  const auto token_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : text) out.push_back(token_of(byte));
    return;
  }
  if (unknown_ < 0)
    throw base::InputError(fmt::format("the tokenizer has no token for {}, and no unknown token", base::excerpt(text)),
                           "set unk_id in its tokenizer.json");
  out.push_back(unknown_);
}

void Unigram::encode(std::string_view piece, Model::Memory& memory, std::vector<std::int32_t>& out) const {
  auto& m = static_cast<Memory&>(memory);
  auto& best = m.best;
  auto& found = m.found;
  find_best(piece, best);
  // From the end. Neighbours that are unknown become one.
  found.clear();
  for (auto end = static_cast<std::uint32_t>(piece.size()); end > 0;) {
    const auto& b = best[end];
    if (unknown_ >= 0 && b.token == unknown_ && !found.empty() && found.back().token == unknown_)
      found.back().begin = b.begin;
    else found.push_back({b.token, b.begin, end});
    end = b.begin;
  }
  for (auto f = found.rbegin(); f != found.rend(); ++f) {
    const auto text = piece.substr(f->begin, f->end - f->begin);
    if (f->token == std::max(unknown_, 0)) append_unknown(text, out);
    else out.push_back(f->token);
  }
  if (best.size() > kept_positions) best = {}, found = {};
}

}  // namespace trainyard::data::pieces
