// Charsmap: SentencePiece's precompiled rules of normalization.
#pragma once

#include "libtrain/data/json_tokenizer/normalizers.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::json_tokenizer {

// As the `tokenizers` package applies them, which differs from SentencePiece: a grapheme of less than six bytes is
// looked up as a whole, and the shortest rule at its beginning replaces all of it. Else its characters are looked up.
class Charsmap : public Normalizer {
 public:
  // InputError for rules that are no such map. `where` names the file.
  Charsmap(std::string_view base64, const std::string& where);
  void apply(Text& text) const override;

 private:
  // The text that the shortest rule at the beginning of `part` gives.
  std::optional<std::string_view> find(std::string_view part) const;
  bool is_plain(char c) const { return static_cast<unsigned char>(c) < 0x80 && plain_[static_cast<unsigned char>(c)]; }

  std::vector<std::uint32_t> units_;  // a double array
  std::string texts_;                 // each ends with a zero
  std::array<bool, 128> plain_{};     // ASCII that no rule changes when it stands alone
};

}  // namespace trainyard::data::json_tokenizer
