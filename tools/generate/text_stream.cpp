// Decodes the newest tokens, and finds the part that is certain.
#include "tools/generate/text_stream.h"

#include "tools/generate/utf8.h"

namespace trainyard::generate {

namespace {

constexpr std::size_t longest_tail = 48, kept_tail = 16;  // tokens

// The number of bytes of `text` that later tokens cannot change.
std::size_t certain(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const auto head = utf8_head(text.substr(end));
    if (head.kind == Character::cut) break;
    end += head.bytes;
  }
  if (end == text.size())
    for (int i = 0; i < 3 && text.substr(0, end).ends_with(replacement); ++i) end -= replacement.size();
  return end;
}

}  // namespace

void TextStream::push(std::int32_t token) {
  tail_.push_back(token);
  show(End::open);
}

void TextStream::finish() { show(End::closed); }

void TextStream::show(End end) {
  const auto text = tokenizer_.decode(tail_);
  if (shown_ > text.size()) return;
  const auto fresh = std::string_view(text).substr(shown_);
  const auto sure = end == End::closed ? fresh.size() : certain(fresh);
  if (sure > 0) write_(valid_utf8(fresh.substr(0, sure)));
  shown_ += sure;
  if (tail_.size() < longest_tail || shown_ < text.size()) return;
  // Decoding from a later token differs only at its beginning (white space), not in what new tokens add.
  tail_.erase(tail_.begin(), tail_.end() - kept_tail);
  shown_ = tokenizer_.decode(tail_).size();
}

}  // namespace trainyard::generate
