// TextStream: turns tokens into text as soon as the text is certain. The text is always valid UTF-8.
#pragma once

#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::generate {

// All text passed to `write` together is the decoding of all tokens, with broken UTF-8 replaced by U+FFFD. Two things
// are held back until more tokens (or finish) decide them. One is an unfinished character. The other is up to three
// U+FFFD at the end, because byte pieces decode to U+FFFD until their character is complete. A token costs the decoding
// of a few tokens, however long the text is. The tokenizer must outlive this object.
class TextStream {
 public:
  TextStream(const data::Tokenizer& tokenizer, std::function<void(std::string_view)> write)
      : tokenizer_(tokenizer), write_(std::move(write)) {}
  void push(std::int32_t token);
  void finish();  // writes what is held back

 private:
  enum class End { open, closed };
  void show(End end);
  const data::Tokenizer& tokenizer_;
  std::function<void(std::string_view)> write_;
  std::vector<std::int32_t> tail_;  // the newest tokens
  std::size_t shown_ = 0;           // bytes of the decoded tail that are written
};

}  // namespace trainyard::generate
