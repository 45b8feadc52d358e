// Building blocks of the family tables: the keys of a config.json, and what several families share.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/checkpoint/hugging_face.h"

#include <fmt/format.h>

#include <initializer_list>
#include <set>

namespace trainyard::checkpoint {

// The hint of a wrong value in a config.json.
inline constexpr const char* damaged_config = "transformers writes no such value: get config.json again";

// The keys of one config.json. It records which keys were asked for, and objections to settings that are not computed
// here. A null value counts as absent; where transformers takes null for none and an absent key for a number, is_null
// tells them apart.
class ConfigKeys {
 public:
  ConfigKeys(const nlohmann::json& json, const std::string& where, std::vector<std::string>& objections)
      : json_(json), object_(json, where, damaged_config), objections_(objections) {}

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
  // Objects unless a boolean setting, which changes what is computed, has this value.
  void require(const char* key, bool value) {
    if (boolean(key, value) != value) object_to("'{}' is {}: only {} is computed here", key, !value, value);
  }
  void require_none(const char* key, const char* what) {
    if (has(key)) object_to("'{}': {} are not computed here", key, what);
  }
  void pass_over(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  void pass_over_all() {
    for (const auto& [key, value] : json_.items()) known_.insert(key);
  }
  bool is_null(const char* key) { return known_.insert(key), json_.contains(key) && json_[key].is_null(); }
  std::vector<std::string>& objections() { return objections_; }
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

// Handles the keys that every family may have. The last of them do not affect a forward pass.
void take_usual(ConfigKeys& keys);
// Requires that each token attends to all earlier tokens, in every layer.
void require_whole_attention(ConfigKeys& keys);

// What is added to the variance in a norm.
void take_norm_epsilon(ConfigKeys& keys, plan::ModelConfig& model, const char* key, double usual);

// The names of a GELU by tanh. They differ in how the formula is written.
bool is_tanh_gelu(const std::string& activation);
// An activation without a gate under `key`: gelu, gelu_new, relu.
void take_plain_activation(ConfigKeys& keys, plan::ModelConfig& model, const char* key, const char* usual);
const char* activation_name(const plan::ModelConfig& model);

// Name of the head's tensor in the decoder families, which has no prefix; in a tied model it may repeat the token
// table.
inline constexpr const char* head_name = "lm_head.weight";
inline std::vector<ForeignTwin> tied_head(const char* table) { return {{head_name, table}}; }

Family gpt2_family();
Family llama_family();
Family mistral_family();
Family mixtral_family();
Family qwen2_family();
Family qwen3_family();
Family qwen3_moe_family();
Family phi3_family();
Family olmo2_family();
Family olmoe_family();
Family gemma2_family();
Family gemma3_family();
Family neox_family();
Family bert_family();
Family roberta_family();
Family t5_family();
Family mt5_family();

}  // namespace trainyard::checkpoint
