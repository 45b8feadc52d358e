// JSON files read strictly: every key is known, every value has its type, and the message says which file and key.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>

namespace trainyard::base {

// What a file may ask of a parser: more is refused before it is built, since the trees of the JSON library are copied,
// printed and destroyed by recursion, and its ordered objects are searched from the front.
inline constexpr int deepest_json = 64;
inline constexpr std::size_t most_ordered_keys = 10'000;  // of one object of nlohmann::ordered_json

// Json is nlohmann::ordered_json (keys in the order of the file) or nlohmann::json (sorted, for files with many keys).
// Throws InputError naming `where` when the text is truncated or is no JSON (with the byte position), has a number no
// double can hold, is nested too deeply, or has a key twice.
template <class Json = nlohmann::ordered_json> Json parse_json(const std::string& text, const std::string& where);

// `text` between quotation marks with its control characters escaped, cut after about 60 bytes: for messages about text
// that somebody else wrote.
std::string excerpt(std::string_view text);
// The text as it is, up to 1024 bytes; a longer one's excerpt: for reports of settings, most of which are short.
std::string shortened(const std::string& text);

// One object. The getters throw InputError when the key is absent or the value has another type or lies outside of the
// given range; done() throws InputError when the object has a key that no getter asked for, naming the nearest one that
// some getter did ask for. Borrows `object`.
template <class Json> class BasicJsonObject {
 public:
  BasicJsonObject(const Json& object, std::string where);
  const Json& at(const std::string& key);
  bool has(const std::string& key);  // for keys that may be absent
  std::int64_t integer(const std::string& key, std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t high = std::numeric_limits<std::int64_t>::max());
  std::uint64_t unsigned_integer(const std::string& key);
  double number(const std::string& key);
  bool boolean(const std::string& key);
  std::string text(const std::string& key, std::size_t longest = 8192);  // in bytes: names, paths and words are shorter
  BasicJsonObject object(const std::string& key);
  const Json& array(const std::string& key);
  void done() const;
  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& expected, const Json& found) const;
  const Json& json_;
  std::string where_;
  std::set<std::string> asked_;
};

using JsonObject = BasicJsonObject<nlohmann::ordered_json>;
using SortedJsonObject = BasicJsonObject<nlohmann::json>;

}  // namespace trainyard::base
