// Strict reading of JSON objects.
#include "libtrain/base/json.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"

#include <limits>
#include <utility>
#include <vector>

namespace trainyard::base {

nlohmann::ordered_json parse_json(const std::string& text, const std::string& where) {
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::parse_error& e) {
    throw InputError(fmt::format("{} is no JSON: it breaks off or is damaged at byte {} of {}", where, e.byte, text.size()), "write the file again");
  }
}

JsonObject::JsonObject(const nlohmann::ordered_json& object, std::string where) : json_(object), where_(std::move(where)) {
  if (!json_.is_object()) throw InputError(fmt::format("{}: expected an object, found {}", where_, json_.type_name()));
}

const nlohmann::ordered_json& JsonObject::at(const std::string& key) {
  asked_.insert(key);
  const auto found = json_.find(key);
  if (found == json_.end()) throw InputError(fmt::format("{}: key '{}' is missing", where_, key));
  return *found;
}

bool JsonObject::has(const std::string& key) {
  asked_.insert(key);
  return json_.contains(key);
}

std::int64_t JsonObject::integer(const std::string& key) {
  const auto& v = at(key);
  const bool fits = !v.is_number_unsigned() || v.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!v.is_number_integer() || !fits) throw InputError(fmt::format("{}: '{}' must be a whole number, found {}", where_, key, v.dump()));
  return v.get<std::int64_t>();
}

double JsonObject::number(const std::string& key) {
  const auto& v = at(key);
  if (!v.is_number()) throw InputError(fmt::format("{}: '{}' must be a number, found {}", where_, key, v.dump()));
  return v.get<double>();
}

std::string JsonObject::text(const std::string& key) {
  const auto& v = at(key);
  if (!v.is_string()) throw InputError(fmt::format("{}: '{}' must be text, found {}", where_, key, v.dump()));
  return v.get<std::string>();
}

JsonObject JsonObject::object(const std::string& key) { return {at(key), where_ + ": " + key}; }

const nlohmann::ordered_json& JsonObject::array(const std::string& key) {
  const auto& v = at(key);
  if (!v.is_array()) throw InputError(fmt::format("{}: '{}' must be a list, found {}", where_, key, v.type_name()));
  return v;
}

void JsonObject::done() const {
  for (const auto& [key, value] : json_.items())
    if (!asked_.count(key))
      throw InputError(fmt::format("{}: unknown key '{}'", where_, key),
                       fmt::format("did you mean '{}'?", nearest(key, std::vector<std::string>(asked_.begin(), asked_.end()))));
}

}  // namespace trainyard::base
