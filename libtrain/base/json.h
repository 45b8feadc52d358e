// Strict reading of JSON files: every key is known, every value has its type, and messages name the file and key.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>

namespace trainyard::base {

// Limits on a file, checked before the JSON library builds its tree. The library copies, prints and destroys trees by
// recursion, and searches its ordered objects from the front.
inline constexpr int deepest_json = 64;
inline constexpr std::size_t most_ordered_keys = 10'000;  // in one nlohmann::ordered_json object

// Parses a JSON text. Json is nlohmann::ordered_json (keys in the order of the file) or nlohmann::json (sorted, for
// files with many keys). InputError names `where`. It is thrown for a text that is truncated or no JSON (with the byte
// position), or is nested too deeply. Also for a number that no double can hold, and for a key that an object has
// twice.
template <class Json = nlohmann::ordered_json> Json parse_json(const std::string& text, const std::string& where);

// The text in quotation marks, with control characters escaped, and shortened to about 60 bytes. It is for messages
// that quote a file of unknown origin.
std::string excerpt(std::string_view text);
// The text unchanged up to 1024 bytes, and the excerpt of a longer text. It is for reports of settings, most of which
// are short.
std::string shortened(const std::string& text);

// The hint of a wrong value in a file of these programs.
inline constexpr const char* damaged_json =
    "the file is damaged, was edited, or is of another version of these programs: write it again";

// One JSON object; borrows `object`. `hint` says what to do about a wrong value; the objects inside have it, too. The
// getters throw InputError when the key is missing, or the value has another type or is out of range. done() throws
// InputError when the object has a key that no getter asked for. It names the nearest key that a getter did ask for.
template <class Json> class BasicJsonObject {
 public:
  BasicJsonObject(const Json& object, std::string where, std::string hint = damaged_json);
  const Json& at(const std::string& key);
  bool has(const std::string& key);  // for optional keys
  std::int64_t integer(const std::string& key, std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t high = std::numeric_limits<std::int64_t>::max());
  std::uint64_t unsigned_integer(const std::string& key);
  double number(const std::string& key);
  bool boolean(const std::string& key);
  std::string text(const std::string& key, std::size_t longest = 8192);  // `longest` is in bytes: names, paths and
                                                                         // words are shorter
  BasicJsonObject object(const std::string& key);
  const Json& array(const std::string& key);
  void done() const;
  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& expected, const Json& found) const;
  const Json& json_;
  std::string where_, hint_;
  std::set<std::string> asked_;
};

using JsonObject = BasicJsonObject<nlohmann::ordered_json>;
using SortedJsonObject = BasicJsonObject<nlohmann::json>;

}  // namespace trainyard::base
