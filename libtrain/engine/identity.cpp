// Compares identities field by field.
#include "libtrain/engine/identity.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/random.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/config.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/model_file/field_json.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/objective.h"
#include "libtrain/plan/spec/optimizer_kind.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace trainyard::engine {

namespace {

// Only runs with another optimizer than AdamW have this field in their identity, and only runs with a moving average
// the other. No resume may change them: they say what the states of the optimizer are.
constexpr const char *kept_optimizer = "optimizer", *kept_average = plan::average_state;
bool is_kept(const std::string& name) { return name == kept_optimizer || name == kept_average; }

// Only runs that use them have these fields, so that the identities of other runs stay as they were. The values are
// those of runs without them.
const nlohmann::json& kept_while_used() {
  static const nlohmann::json fields{
      {"skip_outliers", "none"}, {"answers_only", false},  {"group", ""}, {"layer_decay", 1.0}, {"ema", 0.0},
      {"label_smoothing", 0.0},  {"alternate_sets", false}};
  return fields;
}

void add_unused(nlohmann::json& identity) {
  for (const auto& item : kept_while_used().items()) identity.emplace(item.key(), item.value());
}

using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

// The shape of every tensor of a model, in today's form. nullopt if it is no model of this program.
std::optional<Shapes> shapes_of(nlohmann::json model) {
  try {
    if (model.is_object()) model.emplace("name", "custom");  // an identity has no name
    const auto config = plan::model_from_json(model, "model", "");
    if (!plan::problems(config).empty()) return {};
    Shapes out;
    for (const auto& flat_group : plan::flat_groups(config))
      for (const auto& p : flat_group.parameters) out.emplace_back(p.name, p.shape);
    return out;
  } catch (const base::Error&) {
    return {};
  }
}

bool has_other_tensors(const nlohmann::json& was, const nlohmann::json& now) {
  const auto before = shapes_of(was), after = shapes_of(now);
  return before && after && *before != *after;
}

bool differs_in_adapters_alone(nlohmann::json was, nlohmann::json now) {
  for (auto* model : {&was, &now})
    for (const char* key : {"adapter_rank", "adapter_on", "adapter_alpha"})
      if (model->is_object()) model->erase(key);
  return was == now;
}

// The text for a key that one of two runs leaves out: for a key of the model its default
// (plan/model_file/model_json.h). Runs of other optimizers have no such setting.
std::string default_text(const std::string& name) {
  auto setting = name;
  std::replace(setting.begin(), setting.end(), '_', '-');
  if (plan::is_of_an_optimizer(setting)) return "none";
  plan::ModelConfig usual;
  for (const auto& f : plan::fields_of(usual))
    if (name == "model." + plan::key_of(f)) return nlohmann::json(plan::json_of(f)).dump();
  return "the default";
}

// The setting that a user gives for a key of an identity: "fold" is local-accumulation. nullptr if the key
// is no setting.
const base::Field* setting_of(const std::vector<base::Field>& settings, const std::string& key) {
  const auto found =
      std::find_if(settings.begin(), settings.end(), [&](const auto& field) { return plan::key_of(field) == key; });
  return found == settings.end() ? nullptr : &*found;
}

// The name that --change takes for a key of an identity.
std::string change_name(const std::vector<base::Field>& settings, const std::string& key) {
  const auto* setting = setting_of(settings, key);
  return setting ? setting->name : key;
}

// Settings that a resume may change: they change where and how the run computes, not what
// (libtrain/design/resume.md, decision 14).
bool is_free(const std::string& name) {
  if (name == "ranks") return true;  // no setting, but what a job starts
  RunConfig config;
  const auto settings = fields_of(config);
  const auto* setting = setting_of(settings, name);
  return setting != nullptr && setting->has(base::FieldTrait::free_on_resume);
}

// The hint for a name that is no field of an identity: what it belongs to, that it may change anyway, or which field
// it resembles. `spelled` is the name with hyphens.
std::string field_hint(const std::string& name, const std::string& spelled, const std::vector<std::string>& fields) {
  const auto is_one_of = [&](const std::vector<base::Field>& all) {
    return std::any_of(all.begin(), all.end(), [&](const auto& f) { return plan::key_of(f) == name; });
  };
  plan::ModelConfig model;
  if (is_one_of(plan::fields_of(model))) return base::text("'{}' belongs to the model: $change model", spelled);
  RunConfig config;
  if (name.starts_with("mask_")) return fmt::format("leave '{}' out: only a run that hides tokens has it", spelled);
  if (name == kept_average)
    return base::text("the average is a sum with one decay; a new run can begin with the weights: $init-from");
  if (name == kept_optimizer)
    return base::text(
        "a run keeps its optimizer; a new run can begin with its weights: $init-from, with another $output");
  if (plan::is_of_an_optimizer(spelled))
    return fmt::format("leave '{}' out: the run's optimizer does not read it", spelled);
  if (is_free(name)) return fmt::format("leave '{}' out: a run may go on with another one anyway", spelled);
  if (is_one_of(fields_of(config)))
    return fmt::format("leave '{}' out: it belongs to a start, not to the run", spelled);
  const auto close = base::resembling(spelled, fields);
  return close.empty() ? "name one of these" : fmt::format("did you mean '{}'?", close);
}

// Adds one difference for each key, so that nobody compares two whole models by eye.
void add_differences(const std::string& name, const nlohmann::json& a, const nlohmann::json& b,
                     std::vector<FieldDifference>& out) {
  if (a == b) return;
  if (!a.is_object() || !b.is_object()) {
    out.push_back({name, a, b});
    return;
  }
  auto both = a;
  both.update(b);
  for (const auto& item : both.items())
    add_differences(name.empty() ? item.key() : name + "." + item.key(), a.value(item.key(), nlohmann::json()),
                    b.value(item.key(), nlohmann::json()), out);
}

// One line for each difference, in the words of the program: "--steps: the checkpoint has 4, this run 100, which
// is the default".
std::string difference(const std::string& name, const nlohmann::json& was, const nlohmann::json& now) {
  std::vector<FieldDifference> all;
  add_differences(name, was, now, all);
  RunConfig usual;
  const auto settings = fields_of(usual);
  std::string out;
  for (auto& d : all) {
    const auto* setting = setting_of(settings, d.name);
    const bool is_default = setting && d.second == nlohmann::json(plan::json_of(*setting));
    if (setting) d.setting = setting->name;
    out +=
        fmt::format("\n  {}{}", text_of(d, "the checkpoint", "this run"), is_default ? ", which is the default" : "");
  }
  return out;
}

// The identity as programs write it today, with today's form of the model. Older programs knew no objective but the
// next token, no warm-up but from 0, and no decay of embeddings. A run with AdamW does not name its optimizer, and a
// run that skips no outliers does not say so.
nlohmann::json current_identity(nlohmann::json identity) {
  if (!identity.is_object() || identity.empty()) return identity;
  if (identity.contains("model")) identity["model"] = plan::current_form(identity["model"]);
  identity.emplace("objective", plan::name_of(plan::Objective::causal));
  identity.emplace("start_learning_rate", 0.0);
  identity.emplace("decay_embeddings", "off");
  identity.emplace("optimizer", plan::default_optimizer);
  add_unused(identity);
  return identity;
}

}  // namespace

std::vector<std::string> split_names(const std::string& text) {
  auto names = base::comma_separated(text);
  if (text.find_first_not_of(" ,") != std::string::npos) std::erase(names, "");  // from a comma too many
  if (text.empty()) names.clear();
  RunConfig settings;
  const auto fields = fields_of(settings);
  for (auto& name : names) {
    std::replace(name.begin(), name.end(), '_', '-');
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.is_named(name); });
    name = field == fields.end() ? plan::with_underscores(name) : plan::key_of(*field);
  }
  return names;
}

void require_known_fields(const nlohmann::json& now, const std::vector<std::string>& wanted) {
  auto identity = now;
  if (identity.is_object()) add_unused(identity);
  RunConfig usual;
  const auto settings = fields_of(usual);
  std::vector<std::string> names;
  for (const auto& item : identity.items())
    if (!is_kept(item.key())) names.push_back(change_name(settings, item.key()));
  names.emplace_back(changed_tokenizer);
  for (const auto& name : wanted) {
    if ((identity.contains(name) && !is_kept(name)) || name == changed_tokenizer) continue;
    const auto all = base::text("$change takes {}", fmt::join(names, ", "));
    if (name.empty()) throw base::UsageError(base::text("$change names no setting"), all);
    auto spelled = name;
    std::replace(spelled.begin(), spelled.end(), '_', '-');
    throw base::UsageError(base::text("$change {}: {}; {}", spelled,
                                      name == kept_optimizer ? "no run goes on with another optimizer"
                                      : name == kept_average ? "no run goes on with another average"
                                                             : "a run's identity has no such field",
                                      all),
                           field_hint(name, spelled, names));
  }
}

void require_same_run(const nlohmann::json& written, const nlohmann::json& now, const std::vector<std::string>& allowed,
                      const std::string& where, const std::string& model) {
  require_known_fields(now, allowed);
  RunConfig usual;
  const auto settings = fields_of(usual);
  const auto checkpoint = current_identity(written);
  std::string differences, names;
  std::vector<std::string> given;  // by --change
  for (const auto& name : allowed) given.push_back(change_name(settings, name));
  auto ours = now;
  for (const auto& item : kept_while_used().items())
    if (checkpoint.contains(item.key())) ours.emplace(item.key(), item.value());
  for (const auto& item : ours.items()) {
    const auto was = checkpoint.contains(item.key()) ? checkpoint[item.key()] : nlohmann::json();
    if (item.key() == "model") {
      if (was != item.value() && has_other_tensors(was, item.value()))
        throw base::InputError(fmt::format("{} holds a model of another shape, which no run can go on with:{}", where,
                                           difference("model", was, item.value())),
                               differs_in_adapters_alone(was, item.value())
                                   ? base::text("give $adapter and $adapter-on as the run began, or leave both out")
                               : model == usual.model
                                   ? base::text("give what the run began with, $model or $init-from (without both "
                                                "train takes {}), or choose another $output",
                                                model)
                                   : base::text("give the old model, or choose another $output"));
    }
    if (was == item.value() || std::find(allowed.begin(), allowed.end(), item.key()) != allowed.end()) continue;
    differences += difference(item.key(), was, item.value());
    if (!is_kept(item.key())) names += "," + change_name(settings, item.key());
  }
  if (differences.empty()) return;
  const auto way = names.empty() ? std::string()
                                 : base::text("say $change {}{} to go on with the new ones, or ", fmt::join(given, ","),
                                              given.empty() ? names.substr(1) : names);
  throw base::InputError(fmt::format("{} was trained with other settings:{}", where, differences),
                         base::text("give the old values, or {}$resume never with another $output", way));
}

std::vector<std::string> differing_fields(const nlohmann::json& expected, const nlohmann::json& now) {
  std::vector<std::string> names;
  for (const auto& item : now.items())
    if (!expected.contains(item.key()) || expected[item.key()] != item.value()) names.push_back(item.key());
  return names;
}

std::vector<FieldDifference> differences(const checkpoint::RunState& a, const checkpoint::RunState& b) {
  std::vector<FieldDifference> out;
  add_differences("step", a.step, b.step, out);
  if (a.identity.empty() != b.identity.empty()) out.push_back({"identity", a.identity, b.identity});
  else add_differences("", current_identity(a.identity), current_identity(b.identity), out);
  const auto weights = [](const checkpoint::RunState& s) {
    if (!s.provenance.is_object()) return nlohmann::json();
    const bool imported = s.provenance.contains("imported_from");
    return s.provenance.value("weights_from", imported ? nlohmann::json("imported weights") : nlohmann::json());
  };
  add_differences("weights from", weights(a), weights(b), out);
  add_differences("dtype", base::name_of(a.dtype), base::name_of(b.dtype), out);
  add_differences("device", a.device_kind, b.device_kind, out);
  add_differences("instruction set", a.isa, b.isa, out);
  return out;
}

std::string text_of(const FieldDifference& d, const std::string& first, const std::string& second) {
  const auto shown = [&](const nlohmann::json& value) {
    if (d.name == "weights from") return value.is_string() ? value.get<std::string>() : std::string("initial values");
    // A run goes on with its own optimizer, so that a setting without a value was not known when it was written.
    if (value.is_null()) return d.setting.empty() ? default_text(d.name) : std::string("the default");
    if (d.name == "identity") return std::string(value.empty() ? "none" : "one");
    if (value == "") return std::string("none");
    if (!d.setting.empty() && value.is_string()) return base::shortened(value.get<std::string>());
    return base::shortened(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  const auto name = d.setting.empty() ? d.name : base::setting_name(d.setting);
  return fmt::format("{}: {} has {}, {} {}", name, first, shown(d.first), second, shown(d.second));
}

std::string hash_of(const nlohmann::json& identity) {
  return fmt::format("{:016x}", base::site_hash("identity", identity.dump()));
}

}  // namespace trainyard::engine
