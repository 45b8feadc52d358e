// JSON files read strictly: every key is known, every value has its type, and the message says which file and key.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <set>
#include <string>

namespace trainyard::base {

// Throws InputError naming `where` and the byte position when the text is truncated or is no JSON.
nlohmann::ordered_json parse_json(const std::string& text, const std::string& where);

// One object. The getters throw InputError when the key is absent or the value has another type; done() throws InputError when the object
// has a key that no getter asked for, naming the nearest one that some getter did ask for. Borrows `object`.
class JsonObject {
 public:
  JsonObject(const nlohmann::ordered_json& object, std::string where);
  const nlohmann::ordered_json& at(const std::string& key);
  bool has(const std::string& key);   // for keys that may be absent
  std::int64_t integer(const std::string& key);
  double number(const std::string& key);
  std::string text(const std::string& key);
  JsonObject object(const std::string& key);
  const nlohmann::ordered_json& array(const std::string& key);
  void done() const;

 private:
  const nlohmann::ordered_json& json_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace trainyard::base
