// A tree of bytes for finding tokens.
#include "libtrain/data/json_tokenizer/added_tokens.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/data/bpe/unicode_classes.h"

#include <algorithm>
#include <cstring>

namespace trainyard::data::json_tokenizer {

namespace {

std::uint64_t child_key(std::uint32_t node, char c) { return std::uint64_t{node} << 8 | static_cast<unsigned char>(c); }

}  // namespace

TokenTree::TokenTree(const std::vector<AddedToken>& tokens, bool normalized, Special special_is)
    : special_(special_is) {
  // Of equal texts, which normalizing may make, a special token counts, then the first.
  for (const bool special : {true, false})
    for (const auto& t : tokens)
      if (t.normalized == normalized && t.special == special) tokens_.push_back(t);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::uint32_t node = 0;
    for (const char c : tokens_[i].text) {
      const auto [child, made] = children_.emplace(child_key(node, c), static_cast<std::uint32_t>(nodes_.size()));
      if (made) nodes_.emplace_back();
      node = child->second;
    }
    if (nodes_[node].token < 0) nodes_[node].token = static_cast<std::int32_t>(i);
    begins_[static_cast<unsigned char>(tokens_[i].text[0])] = true;
  }
  if (std::count(begins_.begin(), begins_.end(), true) == 1)
    first_byte_ = static_cast<int>(std::find(begins_.begin(), begins_.end(), true) - begins_.begin());
}

const AddedToken* TokenTree::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto child = children_.find(child_key(node, c));
    if (child == children_.end()) break;
    node = child->second;
    if (nodes_[node].token >= 0) longest = &base::at(tokens_, nodes_[node].token);
  }
  return longest;
}

TokenTree::Found TokenTree::find(std::string_view text, std::size_t from) const {
  if (empty()) return {};
  for (auto at = from; at < text.size(); ++at) {
    if (first_byte_ >= 0) {
      const auto* next = static_cast<const char*>(std::memchr(text.data() + at, first_byte_, text.size() - at));
      if (next == nullptr) break;
      at = base::size(next - text.data());
    } else if (!begins_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    if (const auto* token = longest_at(text.substr(at)); token != nullptr) return {at, token};
  }
  return {};
}

bool TokenTree::is_inside_word(std::string_view text, std::size_t begin, std::size_t end) {
  const auto is_word_at = [&](std::size_t place) {
    const auto* at = text.data() + place;
    return bpe::is_word(bpe::next_code_point(at));
  };
  if (end < text.size() && is_word_at(end)) return true;
  if (begin == 0) return false;
  do --begin;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80);
  return is_word_at(begin);
}

// What is normalized together tells what becomes of white space at the border, and that nothing is put there. Where the
// first text has another form together with the second one, the second is normalized alone.
AddedTokens::Continued::Continued(const Normalizers& normalizers, std::string_view before, std::string_view text,
                                  bool at_start)
    : joint_(before.empty() ? std::string() : std::string(before) + std::string(text)), before_(before, false),
      text_(text, at_start), whole_(joint_, false) {
  if (!before.empty()) {
    apply_all(normalizers, before_);
    apply_all(normalizers, whole_);
    normal_ = whole_.get();
    if (normal_.starts_with(before_.get())) {
      normal_.remove_prefix(before_.get().size());
      return;
    }
    text_.go_on();
  }
  apply_all(normalizers, text_);
  normal_ = text_.get();
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Normalizers& normalizers,
                         TokenTree::Special special, const std::string& where)
    : normalizers_(normalizers), first_(tokens, false, special),
      second_(normalized(tokens, normalizers, where), true, special) {}

std::vector<AddedToken> AddedTokens::normalized(std::vector<AddedToken> tokens, const Normalizers& normalizers,
                                                const std::string& where) {
  for (auto& t : tokens) {
    if (!t.normalized) continue;
    Text text(t.text, true);
    apply_all(normalizers, text);
    if (text.get().empty())
      throw base::InputError(
          fmt::format("{}: nothing of the added token {} stays when it is normalized", where, base::excerpt(t.text)),
          "set its \"normalized\" to false");
    t.text = std::string(text.get());
  }
  return tokens;
}

}  // namespace trainyard::data::json_tokenizer
