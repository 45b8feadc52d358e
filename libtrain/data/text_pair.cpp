// Reads pairs in JSON lines.
#include "libtrain/data/text_pair.h"

#include "libtrain/base/error.h"
#include "libtrain/data/chat_line.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <optional>

namespace trainyard::data {

namespace {

std::string find_text(const simdjson::dom::object& object, const std::string& key, std::string_view& text) {
  std::optional<simdjson::dom::element> value;
  for (const auto field : object)
    if (field.key == key) value = field.value;
  if (!value || value->is_null()) return fmt::format("no key '{}'", key);
  if (value->get(text)) return fmt::format("key '{}' is not text", key);
  return {};
}

std::string find_language(const simdjson::dom::object& object, const std::string& key, std::string_view& language) {
  if (auto reason = find_text(object, key, language); !reason.empty()) return reason;
  if (language.empty()) return fmt::format("key '{}' names no language", key);
  if (language.size() > longest_field)
    return fmt::format("the value of '{}' is longer than {} bytes", key, longest_field);
  if (language.find('\0') != language.npos) return fmt::format("the value of '{}' has a NUL character", key);
  return {};
}

}  // namespace

PairLanguages PairOptions::languages_of(std::size_t input) const {
  if (languages.empty()) return {};
  return languages.size() == 1 ? languages[0] : languages.at(input);
}

std::string PairOptions::token_of(std::string_view language) const {
  auto token = language_token;
  constexpr std::string_view place = "{}";
  if (const auto at = token.find(place); at != token.npos) token.replace(at, place.size(), language);
  return token;
}

std::string find_pair(const PairOptions& options, const simdjson::dom::object& object, TextPair& pair) {
  auto reason = find_text(object, options.source_key, pair.source);
  if (reason.empty()) reason = find_text(object, options.target_key, pair.target);
  if (!reason.empty() || options.source_language_key.empty()) return reason;
  reason = find_language(object, options.source_language_key, pair.source_language);
  return reason.empty() ? find_language(object, options.target_language_key, pair.target_language) : reason;
}

std::string key_of_pair(const TextPair& pair) {
  return fmt::format("{}:{}{}", pair.source.size(), pair.source, pair.target);
}

}  // namespace trainyard::data
