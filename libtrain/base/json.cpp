// Strict reading of JSON objects.
#include "libtrain/base/json.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainyard::base {

namespace {

template <class Json> constexpr bool ordered = std::is_same_v<Json, nlohmann::ordered_json>;

// Checks a text before it is parsed: its depth, and the keys of every object. The library itself silently keeps the
// last of equal keys. A parser callback would be slow, because it walks over all earlier siblings of an object at the
// object's end.
template <class Json> class Watch : public nlohmann::json_sax<Json> {
 public:
  explicit Watch(const std::string& where) : where_(where) {}
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool key(std::string& key) override {
    keys_.push_back(key);
    if (ordered<Json> && keys_.size() - first_keys_.back() > most_ordered_keys)
      throw InputError(fmt::format("{}: an object has more than {} keys", where_, most_ordered_keys),
                       "files of these programs have fewer: is it the right file?");
    return true;
  }
  bool end_object() override {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(first_keys_.back());
    std::sort(first, keys_.end());
    if (const auto twice = std::adjacent_find(first, keys_.end()); twice != keys_.end())
      throw InputError(fmt::format("{}: the key {} is there twice in one object", where_, excerpt(*twice)),
                       "remove one of them, or write the file again");
    keys_.erase(first, keys_.end());
    return close();
  }
  bool end_array() override { return close(); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(typename Json::number_integer_t) override { return true; }
  bool number_unsigned(typename Json::number_unsigned_t) override { return true; }
  bool number_float(typename Json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(typename Json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  bool open() {
    if (first_keys_.size() >= deepest_json)
      throw InputError(fmt::format("{}: lists and objects are nested more than {} deep", where_, deepest_json),
                       "files of these programs are not: is it the right file?");
    first_keys_.push_back(keys_.size());
    return true;
  }
  bool close() {
    first_keys_.pop_back();
    return true;
  }

  const std::string& where_;
  std::vector<std::string> keys_;        // keys of all open objects, the innermost object last
  std::vector<std::size_t> first_keys_;  // where the keys of each open list or object begin; lists have no keys
};

bool is_plain(const std::string& key) {
  return key.size() <= 60 &&
         std::none_of(key.begin(), key.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

template <class Json> std::string found_text(const Json& v) {
  return v.is_structured() ? std::string(v.type_name())
         : v.is_string()   ? excerpt(v.template get_ref<const std::string&>())
                           : v.dump();
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t longest = 60;
  auto out = nlohmann::json(std::string(text.substr(0, longest)))
                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > longest) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 1024;
  return text.size() > longest ? excerpt(text) : text;
}

namespace {

// Which of the numbers that some programs write, and that JSON does not have, begins at this byte, counted from 1; ""
// if none does.
std::string_view number_without_json(std::string_view text, std::size_t byte) {
  for (const std::size_t at : {byte - 1, byte})  // the minus may have been read
    for (const std::string_view name : {"NaN", "-Infinity", "Infinity"})
      if (at > 0 && at <= text.size() && text.substr(at - 1).starts_with(name)) return name;
  return {};
}

}  // namespace

template <class Json> Json parse_json(const std::string& text, const std::string& where) {
  Watch<Json> watch(where);
  try {
    Json::sax_parse(text, &watch);  // false where the text is no JSON; the parser below explains it
    return Json::parse(text);
  } catch (const typename Json::parse_error& e) {
    if (const auto name = number_without_json(text, e.byte); !name.empty())
      throw InputError(
          fmt::format("{} is no JSON: byte {} begins {}, and JSON has no such number", where, e.byte, name),
          "write a number, or null if it has none");
    throw InputError(
        fmt::format("{} is no JSON: it breaks off or is damaged at byte {} of {}", where, e.byte, text.size()),
        "write the file again");
  } catch (const typename Json::exception& e) {  // out_of_range: 1e999
    throw InputError(fmt::format("{} cannot be read as JSON: {}", where, excerpt(e.what())), "write the file again");
  }
}

template <class Json> BasicJsonObject<Json>::BasicJsonObject(const Json& object, std::string where, std::string hint)
    : json_(object), where_(std::move(where)), hint_(std::move(hint)) {
  if (!json_.is_object())
    throw InputError(fmt::format("{}: expected an object, found {}", where_, json_.type_name()), hint_);
}

template <class Json>
void BasicJsonObject<Json>::refuse(const std::string& key, const std::string& expected, const Json& found) const {
  throw InputError(fmt::format("{}: '{}' must be {}, found {}", where_, key, expected, found_text(found)), hint_);
}

template <class Json> const Json& BasicJsonObject<Json>::at(const std::string& key) {
  asked_.insert(key);
  const auto found = json_.find(key);
  if (found == json_.end()) throw InputError(fmt::format("{}: key '{}' is missing", where_, key), hint_);
  return *found;
}

template <class Json> bool BasicJsonObject<Json>::has(const std::string& key) {
  asked_.insert(key);
  return json_.contains(key);
}

template <class Json>
std::int64_t BasicJsonObject<Json>::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  constexpr auto all_low = std::numeric_limits<std::int64_t>::min(),
                 all_high = std::numeric_limits<std::int64_t>::max();
  const auto& v = at(key);
  const bool fits = !v.is_number_unsigned() || v.template get<std::uint64_t>() <= static_cast<std::uint64_t>(all_high);
  if (!v.is_number_integer() || !fits) refuse(key, "a whole number", v);
  const auto value = v.template get<std::int64_t>();
  if (value >= low && value <= high) return value;
  refuse(key,
         low == all_low     ? fmt::format("at most {}", high)
         : high == all_high ? fmt::format("at least {}", low)
                            : fmt::format("between {} and {}", low, high),
         v);
}

template <class Json> std::uint64_t BasicJsonObject<Json>::unsigned_integer(const std::string& key) {
  const auto& v = at(key);
  if (!v.is_number_unsigned() && !(v.is_number_integer() && v.template get<std::int64_t>() >= 0))
    refuse(key, "a whole number of at least 0", v);
  return v.template get<std::uint64_t>();
}

template <class Json> double BasicJsonObject<Json>::number(const std::string& key) {
  const auto& v = at(key);
  if (!v.is_number()) refuse(key, "a number", v);
  return v.template get<double>();
}

template <class Json> bool BasicJsonObject<Json>::boolean(const std::string& key) {
  const auto& v = at(key);
  if (!v.is_boolean()) refuse(key, "true or false", v);
  return v.template get<bool>();
}

template <class Json> std::string BasicJsonObject<Json>::text(const std::string& key, std::size_t longest) {
  const auto& v = at(key);
  if (!v.is_string()) refuse(key, "text", v);
  if (v.template get_ref<const std::string&>().size() > longest)
    refuse(key, fmt::format("text of at most {} bytes", longest), v);
  return v.template get<std::string>();
}

template <class Json> BasicJsonObject<Json> BasicJsonObject<Json>::object(const std::string& key) {
  return {at(key), where_ + ": " + (is_plain(key) ? key : excerpt(key)), hint_};
}

template <class Json> const Json& BasicJsonObject<Json>::array(const std::string& key) {
  const auto& v = at(key);
  if (!v.is_array()) refuse(key, "a list", v);
  return v;
}

template <class Json> void BasicJsonObject<Json>::done() const {
  for (const auto& [key, value] : json_.items())
    if (!asked_.count(key)) {
      const std::vector<std::string> known(asked_.begin(), asked_.end());
      const auto close = resembling(key, known);
      throw InputError(
          fmt::format("{}: unknown key {}", where_, is_plain(key) ? "'" + key + "'" : excerpt(key)),
          close.empty() ? std::string("is the file of a newer version?") : fmt::format("did you mean '{}'?", close));
    }
}

template nlohmann::ordered_json parse_json(const std::string&, const std::string&);
template nlohmann::json parse_json(const std::string&, const std::string&);
template class BasicJsonObject<nlohmann::ordered_json>;
template class BasicJsonObject<nlohmann::json>;

}  // namespace trainyard::base
