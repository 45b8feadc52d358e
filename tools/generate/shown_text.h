// ShownText: the text of a continuation while it is made, up to the first of the texts that end it.
#pragma once

#include "tools/generate/text_stream.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::generate {

// Finds stop texts in a text that arrives in pieces. What may be the beginning of one is held back until more text, or
// the end, decides it. Of several stop texts, the one that is complete first ends the text, and of these the longest.
// So the result does not depend on the pieces. A stop text may not be empty.
class StopTexts {
 public:
  StopTexts(const std::vector<std::string>& stops, std::function<void(std::string_view)> write)
      : stops_(stops), write_(std::move(write)) {}
  void push(std::string_view more);
  void finish();  // writes what is held back
  bool found() const { return found_; }

 private:
  void write(std::size_t bytes);
  const std::vector<std::string>& stops_;
  std::function<void(std::string_view)> write_;
  std::string held_;
  bool found_ = false;
};

// Writes the prompt and what follows it. Stop texts are sought behind the prompt. Tokenizer and stop texts must outlive
// this object, which cannot be copied because its parts refer to each other.
class ShownText {
 public:
  using Write = std::function<void(std::string_view)>;
  // write_prompt may be empty: the prompt is not written then.
  ShownText(const data::Tokenizer& tokenizer, const std::vector<std::string>& stops,
            std::span<const std::int32_t> prompt, const Write& write_prompt, const Write& write);
  ShownText(const ShownText&) = delete;
  ShownText& operator=(const ShownText&) = delete;
  bool push(std::int32_t token);  // whether the text goes on
  bool finish();                  // writes what is held back; whether no stop text was found, in it either
 private:
  bool continues_ = false;
  Write write_prompt_;
  StopTexts stop_;
  TextStream stream_;
};

}  // namespace trainyard::generate
