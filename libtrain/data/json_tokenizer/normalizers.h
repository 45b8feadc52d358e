// Normalizers: the parts of a tokenizer.json that change the text before it is divided.
#pragma once

#include "libtrain/base/json.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::json_tokenizer {

// A text between changes. It lies in the document or in one of two buffers.
class Text {
 public:
  Text(std::string_view text, bool at_start)
      : text_(text), at_start_(at_start), most_(most_growth * text.size() + always_allowed) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  std::string_view get() const { return text_; }
  // Whether its first character comes from the first character of the document.
  bool at_start() const { return at_start_; }
  void lost_start() { at_start_ = false; }
  // Whether it goes on behind other text, so that nothing is put before it or removed there.
  bool goes_on() const { return goes_on_; }
  void go_on() { goes_on_ = true; }

  // An empty string for the changed text, which take() then makes the text.
  std::string& room() {
    auto& one = buffers_[used_ ^ 1u];
    one.clear();
    return one;
  }
  void take() {
    used_ ^= 1u, text_ = buffers_[used_];
    require_size(text_.size());
  }
  // InputError for a text that has grown beyond what a tokenizer needs: its rules may be made to fill all memory.
  void require_size(std::size_t bytes) const {
    if (bytes > most_) refuse_size();
  }
  void keep(std::string_view part) { text_ = part; }  // a part of get()

 private:
  static constexpr std::size_t most_growth = 64, always_allowed = std::size_t{1} << 16;
  [[noreturn]] static void refuse_size();

  std::string_view text_;
  bool at_start_, goes_on_ = false;
  std::size_t most_;
  std::array<std::string, 2> buffers_;
  unsigned used_ = 0;
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(Text& text) const = 0;  // valid UTF-8
};
using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

inline void apply_all(const Normalizers& normalizers, Text& text) {
  for (const auto& one : normalizers) one->apply(text);
}

// The key `normalizer` of the whole file. InputError names a type that is not supported.
Normalizers read_normalizers(base::SortedJsonObject& root);

}  // namespace trainyard::data::json_tokenizer
