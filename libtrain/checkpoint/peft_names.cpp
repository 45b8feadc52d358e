// Names and settings of peft.
#include "libtrain/checkpoint/peft_names.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/merge.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <regex>
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

namespace {

constexpr const char* of_another_file = "adapter_config.json belongs to another file, or is damaged";

// A text or a list of texts; null and an absent key are nothing.
PeftSelection::Names modules_named_in(const nlohmann::json& config, const char* key, const std::string& where) {
  const auto value = config.value(key, nlohmann::json());
  PeftSelection::Names names;
  if (value.is_null()) return names;
  names.given = true;
  if (value.is_string()) names.expression = value.get<std::string>();
  else if (value.is_array() && std::ranges::all_of(value, [](const auto& one) { return one.is_string(); }))
    names.listed = value.get<std::vector<std::string>>();
  else
    throw base::InputError(
        fmt::format("{}: {} is {}, expected names of modules", where, key, base::excerpt(value.dump())),
        of_another_file);
  return names;
}

PeftSelection selection_of(const nlohmann::json& config, const std::string& where) {
  PeftSelection out;
  out.targets = modules_named_in(config, "target_modules", where),
  out.excluded = modules_named_in(config, "exclude_modules", where);
  auto patterns = modules_named_in(config, "layers_pattern", where);
  out.patterns = std::move(patterns.listed);
  if (!patterns.expression.empty()) out.patterns.push_back(patterns.expression);
  auto layers = config.value("layers_to_transform", nlohmann::json());
  if (layers.is_number()) layers = nlohmann::json::array({layers});
  if (layers.is_null()) return out;
  if (!layers.is_array() || !std::ranges::all_of(layers, [](const auto& one) { return one.is_number_unsigned(); }))
    throw base::InputError(
        fmt::format("{}: layers_to_transform is {}, expected numbers of layers", where, base::excerpt(layers.dump())),
        of_another_file);
  out.layers = layers.get<std::vector<std::int64_t>>();
  return out;
}

bool is_or_ends_with(const std::string& module, const std::string& name) {
  return module == name || module.ends_with("." + name);
}

// As of plan/schedule/partition.cpp: short, in polynomial time, without back-references.
bool matches_whole(const std::string& module, const std::string& expression, const std::string& where) {
  constexpr std::size_t longest = 1000;
  auto syntax = std::regex::ECMAScript | std::regex::nosubs;
#ifdef __GLIBCXX__
  syntax |= std::regex_constants::__polynomial;
#endif
  std::string why = fmt::format("it has more than {} characters", longest);
  if (expression.size() <= longest) try {
      return std::regex_match(module, std::regex(expression, syntax));
    } catch (const std::regex_error& e) {
      why = e.what();
    }
  throw base::InputError(fmt::format("{}: the expression {} for names of modules cannot be read here: {}", where,
                                     base::excerpt(expression), why),
                         "write a list of the last parts of the names, such as [\"q_proj\", \"v_proj\"]");
}

bool names_module(const PeftSelection::Names& names, const std::string& module, const std::string& where) {
  if (names.expression.empty())
    return std::ranges::any_of(names.listed, [&](const auto& name) { return is_or_ends_with(module, name); });
  auto lower = names.expression;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower == "all-linear" || matches_whole(module, names.expression, where);
}

// The first component of digits alone that follows two others, and the component before it.
struct LayerOfModule {
  std::string before;
  std::int64_t number = -1;
};
LayerOfModule layer_of(const std::string& module) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= module.size();) {
    const auto dot = std::min(module.find('.', at), module.size());
    parts.push_back(module.substr(at, dot - at));
    at = dot + 1;
  }
  for (std::size_t i = 1; i + 1 < parts.size(); ++i)
    if (!parts[i].empty() && parts[i].size() < 10 && parts[i].find_first_not_of("0123456789") == std::string::npos)
      return {parts[i - 1], std::stoll(parts[i])};
  return {};
}

}  // namespace

std::string PeftSelection::left_out_by(const std::string& module, const std::string& where) const {
  if (targets.given && !names_module(targets, module, where)) return "target_modules";
  if (excluded.given && names_module(excluded, module, where)) return "exclude_modules";
  // Of names that end as listed only some layers may be taken.
  if (layers.empty() || !targets.expression.empty() ||
      std::ranges::find(targets.listed, module) != targets.listed.end())
    return {};
  const auto layer = layer_of(module);
  if (!patterns.empty() && std::ranges::find(patterns, layer.before) == patterns.end()) return "layers_pattern";
  return std::ranges::find(layers, layer.number) == layers.end() ? "layers_to_transform" : "";
}

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
  return {static_cast<std::int64_t>(rank), alpha, by_root, selection_of(config, where)};
}

}  // namespace trainyard::checkpoint
