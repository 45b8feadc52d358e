// What the families' tables are made with: the keys of a config.json, and what several families have.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/checkpoint/hugging_face.h"

#include <fmt/format.h>

#include <initializer_list>
#include <set>

namespace trainyard::checkpoint {

// The keys of one config.json: which were asked for, and what they said that is not computed here. null is as good as
// absent, as it is in transformers.
class ConfigKeys {
 public:
  ConfigKeys(const nlohmann::json& json, const std::string& where, std::vector<std::string>& objections)
      : json_(json), object_(json, where), objections_(objections) {}

  bool has(const char* key) {
    known_.insert(key);
    return json_.contains(key) && !json_[key].is_null();
  }
  std::int64_t integer(const char* key) { return has(key), object_.integer(key); }
  std::int64_t integer(const char* key, std::int64_t usual) { return has(key) ? object_.integer(key) : usual; }
  double number(const char* key, double usual) { return has(key) ? object_.number(key) : usual; }
  bool boolean(const char* key, bool usual) { return has(key) ? object_.boolean(key) : usual; }
  std::string text(const char* key, const char* usual) { return has(key) ? object_.text(key) : usual; }
  const nlohmann::json& value(const char* key) { return known_.insert(key), object_.at(key); }

  template <class... A> void object_to(fmt::format_string<A...> format, A&&... values) {
    objections_.push_back(fmt::format(format, std::forward<A>(values)...));
  }
  // A switch that changes what is computed.
  void require(const char* key, bool value) {
    if (boolean(key, value) != value) object_to("'{}' is {}: only {} is computed here", key, !value, value);
  }
  void require_none(const char* key, const char* what) {
    if (has(key)) object_to("'{}': {} are not computed here", key, what);
  }
  void pass_over(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  std::vector<std::string> unknown() const {
    std::vector<std::string> out;
    for (const auto& [key, value] : json_.items())
      if (!known_.contains(key) && !value.is_null()) out.push_back(key);
    return out;
  }

 private:
  const nlohmann::json& json_;
  base::SortedJsonObject object_;
  std::vector<std::string>& objections_;
  std::set<std::string> known_;
};

// What every family may have; what comes last, no forward pass looks at.
void take_usual(ConfigKeys& keys);

// Why a model is of no family whose queries see backwards alone.
void problems_of_decoder(const plan::ModelConfig& model, std::vector<std::string>& out);

// Of these families: the head, without prefix, and where the model is tied the table that it may be once more.
inline constexpr const char* head_name = "lm_head.weight";
inline std::vector<ForeignTwin> tied_head(const char* table) { return {{head_name, table}}; }

Family gpt2_family();
Family llama_family();
Family bert_family();

}  // namespace trainyard::checkpoint
