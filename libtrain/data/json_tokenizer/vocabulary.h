// Vocabulary: the tokens of a model by their texts and ids, and the added tokens beside them.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/data/json_tokenizer/added_tokens.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trainyard::data::json_tokenizer {

inline constexpr std::int64_t most_ids = std::int64_t{1} << 22;  // all ids are below it
inline constexpr std::size_t longest_added_token = 256;          // in bytes

// The id as the file writes it. InputError for any other value.
std::int32_t id_of(const nlohmann::json& value, const std::string& token, const std::string& where);

// With `in_alphabet`, tokens are written in the byte-level alphabet, and every byte has one. A token with characters
// outside the alphabet cannot come from text. Added tokens may define it, and `foreign` lists its id.
class Vocabulary {
 public:
  enum class Writing { plain, alphabet };
  Vocabulary(Writing writing, std::string where) : writing_(writing), where_(std::move(where)) {}
  // {"token": id}. Borrows the object.
  static Vocabulary of_object(const nlohmann::json& object, Writing writing, const std::string& where);

  // Borrows the text. InputError for a token without text, and for an id or a text that is there already.
  void add(std::string_view token, std::int32_t id);
  std::optional<std::int32_t> find(std::string_view token) const;
  const std::string& where() const { return where_; }

  std::vector<std::string> tokens;  // by id, as bytes of text; empty where the id has none
  std::vector<std::pair<std::int32_t, std::string_view>> foreign;

 private:
  void require_bytes() const;

  Writing writing_;
  std::string where_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::vector<bool> taken_;
};

// The key `added_tokens` of the whole file. InputError for tokens that contradict each other or the vocabulary.
std::vector<AddedToken> read_added_tokens(base::SortedJsonObject& root, const Vocabulary& vocabulary);

}  // namespace trainyard::data::json_tokenizer
