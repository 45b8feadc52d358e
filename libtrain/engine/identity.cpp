// Compares identities field by field.
#include "libtrain/engine/identity.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/random.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/config.h"
#include "libtrain/plan/field_json.h"
#include "libtrain/plan/inventory.h"
#include "libtrain/plan/model_fields.h"
#include "libtrain/plan/model_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace trainyard::engine {

namespace {

using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

// Of every tensor of a model in today's form; nothing where it is no model of this program.
std::optional<Shapes> shapes_of(nlohmann::json model) {
  try {
    if (model.is_object()) model.emplace("name", "custom");  // an identity has none
    const auto config = plan::model_from_json(model, "model", "");
    if (!plan::problems(config).empty()) return {};
    Shapes out;
    for (const auto& unit : plan::units(config))
      for (const auto& p : unit.parameters) out.emplace_back(p.name, p.shape);
    return out;
  } catch (const base::Error&) {
    return {};
  }
}

bool has_other_tensors(const nlohmann::json& was, const nlohmann::json& now) {
  const auto before = shapes_of(was), after = shapes_of(now);
  return before && after && *before != *after;
}

// What a key that is left out means: in a model that of its default (plan/model_json.h).
std::string default_text(const std::string& name) {
  plan::ModelConfig usual;
  for (const auto& f : plan::fields_of(usual))
    if (name == "model." + plan::key_of(f)) return nlohmann::json(plan::json_of(f)).dump();
  return "the default";
}

// For a name that is no field of an identity: what it belongs to, that it may change anyway, or what it resembles.
std::string field_hint(const std::string& name, const std::vector<std::string>& fields) {
  const auto is_one_of = [&](const std::vector<base::Field>& all) {
    return std::any_of(all.begin(), all.end(), [&](const auto& f) { return plan::key_of(f) == name; });
  };
  plan::ModelConfig model;
  if (is_one_of(plan::fields_of(model))) return fmt::format("'{}' belongs to the model: --change model", name);
  RunConfig config;
  if (is_one_of(fields_of(config))) return fmt::format("leave '{}' out: a run may go on with another one anyway", name);
  const auto close = base::resembling(name, fields);
  return close.empty() ? "name one of these" : fmt::format("did you mean '{}'?", close);
}

// One line for each key that differs, so that nobody compares two whole models by eye.
std::string difference(const std::string& name, const nlohmann::json& was, const nlohmann::json& now) {
  const auto shown = [&](const nlohmann::json& value) { return value.is_null() ? default_text(name) : value.dump(); };
  if (!was.is_object() || !now.is_object())
    return fmt::format("\n  {}: the checkpoint has {}, this run {}", name, shown(was), shown(now));
  auto both = was;
  both.update(now);
  std::string out;
  for (const auto& item : both.items()) {
    const auto before = was.value(item.key(), nlohmann::json()), after = now.value(item.key(), nlohmann::json());
    if (before != after) out += difference(name + "." + item.key(), before, after);
  }
  return out;
}

}  // namespace

std::vector<std::string> split_names(const std::string& text) {
  auto names = base::comma_separated(text);
  if (text.find_first_not_of(" ,") != std::string::npos) std::erase(names, "");  // a comma too many
  if (text.empty()) names.clear();
  for (auto& name : names) std::replace(name.begin(), name.end(), '-', '_');
  return names;
}

void require_known_fields(const nlohmann::json& identity, const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const auto& item : identity.items()) names.push_back(item.key());
  for (const auto& name : wanted)
    if (!identity.contains(name)) {
      throw base::UsageError(fmt::format("--change {}: there is no such field; those of a run's identity are {}", name,
                                         fmt::join(names, ", ")),
                             field_hint(name, names));
    }
}

void require_same_run(const nlohmann::json& checkpoint, const nlohmann::json& now,
                      const std::vector<std::string>& allowed, const std::string& where) {
  require_known_fields(now, allowed);
  std::string differences, names;
  for (const auto& item : now.items()) {
    auto was = checkpoint.contains(item.key()) ? checkpoint[item.key()] : nlohmann::json();
    if (item.key() == "model") {
      was = plan::current_form(was);
      if (was != item.value() && has_other_tensors(was, item.value()))
        throw base::InputError(fmt::format("{} holds a model of another shape, which no run can go on with:{}", where,
                                           difference("model", was, item.value())),
                               "give the old model, or choose another --output");
    }
    if (was == item.value() || std::find(allowed.begin(), allowed.end(), item.key()) != allowed.end()) continue;
    differences += difference(item.key(), was, item.value());
    names += (names.empty() ? "" : ",") + item.key();
  }
  if (!differences.empty())
    throw base::InputError(fmt::format("{} belongs to another run:{}", where, differences),
                           fmt::format("give the old values, or say --change {} to go on with the new ones, or "
                                       "--resume never with another --output",
                                       names));
}

std::vector<std::string> differing_fields(const nlohmann::json& expected, const nlohmann::json& now) {
  std::vector<std::string> names;
  for (const auto& item : now.items())
    if (!expected.contains(item.key()) || expected[item.key()] != item.value()) names.push_back(item.key());
  return names;
}

std::string hash_of(const nlohmann::json& identity) {
  return fmt::format("{:016x}", base::site_hash("identity", identity.dump()));
}

}  // namespace trainyard::engine
