// Names and settings of peft.
#include "libtrain/checkpoint/peft_names.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/merge.h"

#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <set>

namespace trainyard::checkpoint {

namespace {

constexpr std::string_view of_weight = ".weight";

std::string last_component(const std::string& module) { return module.substr(module.rfind('.') + 1); }

}  // namespace

PeftModules peft_modules(const Family& family, const plan::ModelConfig& model, const std::string& where) {
  auto base = model;
  base.adapter = {};
  const auto parameters = parameters_of(base);
  auto adapters = adapters_of_weights(model);
  PeftModules out;
  std::set<std::string> adapted, others;  // last components
  for (const auto& t : foreign_tensors(family, base, parameters, family.prefix)) {
    const auto module = t.name.ends_with(of_weight) ? t.name.substr(0, t.name.size() - of_weight.size()) : t.name;
    bool has_adapter = false;
    for (const auto& part : t.parts) {
      const auto found = adapters.find(base::at(parameters, part.tensor).name);
      if (found == adapters.end()) continue;
      if (t.parts.size() > 1)
        throw base::InputError(
            fmt::format("{}: the adapter of {} belongs to a part of {}, which a {} model keeps as one layer", where,
                        found->first, module, family.model_type),
            "reshard-checkpoint --merge adds adapters to the weights; convert-checkpoint --to safetensors writes "
            "these");
      out.modules.push_back({found->second.a, found->second.b, module});
      out.transposed = t.transposed;
      has_adapter = true;
    }
    if (t.name.ends_with(of_weight)) (has_adapter ? adapted : others).insert(last_component(module));
  }
  const bool ambiguous =
      std::any_of(adapted.begin(), adapted.end(), [&](const auto& name) { return others.contains(name); });
  if (!ambiguous) out.targets.assign(adapted.begin(), adapted.end());
  else
    for (const auto& m : out.modules) out.targets.push_back(m.module);
  return out;
}

namespace {

bool says_nothing(const nlohmann::json& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

// Keys that change no result of a trained adapter, whatever their value.
const std::set<std::string_view>& harmless() {
  static const std::set<std::string_view> all = {
      "auto_mapping",       "base_model_name_or_path", "revision",       "task_type",       "inference_mode",
      "lora_dropout",       "fan_in_fan_out",          "target_modules", "peft_version",    "layers_pattern",
      "megatron_core",      "layers_to_transform",     "runtime_config", "exclude_modules", "qalora_group_size",
      "ensure_weight_tying"};
  return all;
}

}  // namespace

PeftConfig peft_config(const nlohmann::json& config, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    return base::InputError(fmt::format("{}: {}", where, what), hint);
  };
  constexpr const char* merge_there = "merge the adapter with peft (merge_and_unload), and import the model";
  if (!config.is_object()) throw refuse("it is no JSON object", "name the folder of a trained peft adapter");
  const auto number = [&](const char* key) {
    if (!config.contains(key) || !config.at(key).is_number())
      throw refuse(fmt::format("'{}' is {}, expected a number", key,
                               config.contains(key) ? base::excerpt(config.at(key).dump()) : "missing"),
                   "it is a file of another program than peft");
    return config.at(key).get<double>();
  };
  if (const auto type = config.find("peft_type"); type == config.end() || *type != "LORA")
    throw refuse(fmt::format("peft_type is {}, only LORA is known",
                             type == config.end() ? "missing" : base::excerpt(type->dump())),
                 merge_there);
  const auto rank = number("r"), alpha = number("lora_alpha");
  if (rank < 1 || rank > 4096 || rank != std::floor(rank))
    throw refuse(fmt::format("r is {}, expected a whole number from 1 to 4096", rank), "check the file");
  if (!(alpha > 0) || !std::isfinite(alpha))
    throw refuse(fmt::format("lora_alpha is {}, expected a number above 0", alpha), "check the file");
  for (const auto& [key, value] : config.items()) {
    if (key == "peft_type" || key == "r" || key == "lora_alpha" || harmless().contains(key) || says_nothing(value))
      continue;
    if (key == "bias" && value == "none") continue;
    if (key == "use_rslora" && value == true) continue;
    if (key == "init_lora_weights" && (value == true || value == "gaussian")) continue;
    throw refuse(fmt::format("{} is {}, which has no meaning here", base::excerpt(key), base::excerpt(value.dump())),
                 merge_there);
  }
  const bool by_root = config.value("use_rslora", nlohmann::json(false)) == true;
  return {static_cast<std::int64_t>(rank), alpha, by_root};
}

}  // namespace trainyard::checkpoint
