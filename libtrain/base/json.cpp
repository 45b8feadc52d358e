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

// Watches a parser: depth, and the keys of every object that is open. The library itself keeps the last of equal keys
// without a word.
template <class Json> class ParseWatch {
 public:
  explicit ParseWatch(const std::string& where) : where_(where) {}
  bool operator()(int depth, typename Json::parse_event_t event, Json& parsed) {
    using Event = typename Json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= deepest_json)
      throw InputError(fmt::format("{}: lists and objects are nested more than {} deep", where_, deepest_json),
                       "no file of these programs is: is it the right one?");
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::key) keep(parsed.template get_ref<const std::string&>());
    if (event == Event::object_end) {
      if (parsed.size() != keys_.back().size()) refuse_duplicate();
      keys_.pop_back();
    }
    return true;
  }

 private:
  void keep(const std::string& key) {
    keys_.back().push_back(key);
    if (ordered<Json> && keys_.back().size() > most_ordered_keys)
      throw InputError(fmt::format("{}: an object has more than {} keys", where_, most_ordered_keys),
                       "no file of these programs has: is it the right one?");
  }
  [[noreturn]] void refuse_duplicate() {
    auto& keys = keys_.back();
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    throw InputError(
        fmt::format("{}: the key {} is there twice in one object", where_, excerpt(twice == keys.end() ? "" : *twice)),
        "remove one of them, or write the file again");
  }

  const std::string& where_;
  std::vector<std::vector<std::string>> keys_;
};

bool is_plain(const std::string& key) {
  return key.size() <= 60 &&
         std::none_of(key.begin(), key.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

const char* const way_out =
    "the file is damaged, was edited, or is of another version of these programs: write it again";

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

template <class Json> Json parse_json(const std::string& text, const std::string& where) {
  ParseWatch<Json> watch(where);
  try {
    return Json::parse(text, [&watch](int depth, typename Json::parse_event_t event, Json& parsed) {
      return watch(depth, event, parsed);
    });
  } catch (const typename Json::parse_error& e) {
    throw InputError(
        fmt::format("{} is no JSON: it breaks off or is damaged at byte {} of {}", where, e.byte, text.size()),
        "write the file again");
  } catch (const typename Json::exception& e) {  // out_of_range: 1e999
    throw InputError(fmt::format("{} cannot be read as JSON: {}", where, excerpt(e.what())), "write the file again");
  }
}

template <class Json> BasicJsonObject<Json>::BasicJsonObject(const Json& object, std::string where)
    : json_(object), where_(std::move(where)) {
  if (!json_.is_object())
    throw InputError(fmt::format("{}: expected an object, found {}", where_, json_.type_name()), way_out);
}

template <class Json>
void BasicJsonObject<Json>::refuse(const std::string& key, const std::string& expected, const Json& found) const {
  throw InputError(fmt::format("{}: '{}' must be {}, found {}", where_, key, expected, found_text(found)), way_out);
}

template <class Json> const Json& BasicJsonObject<Json>::at(const std::string& key) {
  asked_.insert(key);
  const auto found = json_.find(key);
  if (found == json_.end()) throw InputError(fmt::format("{}: key '{}' is missing", where_, key), way_out);
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
  return {at(key), where_ + ": " + (is_plain(key) ? key : excerpt(key))};
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
