// TextStream: tokens in, text out as soon as it is certain, always valid UTF-8.
#pragma once

#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::generate {

// What was handed to `write`, all together, is the decoding of all tokens with broken UTF-8 replaced by U+FFFD. Held
// back until more tokens (or finish) decide: the beginning of a character, and up to three U+FFFD at the end, which
// pieces of single bytes decode to before their character is complete. A token costs the decoding of a few tokens,
// however long the text is. Borrows the tokenizer.
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
  std::size_t shown_ = 0;           // bytes of the tail's decoding that are written
};

}  // namespace trainyard::generate
