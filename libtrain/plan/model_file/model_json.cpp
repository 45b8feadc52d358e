// Reads and writes models as JSON, in the old and the new form.
#include "libtrain/plan/model_file/model_json.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/model_file/field_json.h"
#include "libtrain/plan/model_file/model_fields.h"

#include <fmt/ranges.h>

#include <set>

namespace trainyard::plan {

namespace {

// Whether version 1 did not have the key from its beginning. In a file without such a key it has its default. A file
// that is written leaves such a key out if it has its default.
bool came_later(const base::Field& f) {
  static const std::set<std::string_view> first = {"name",
                                                   "layers",
                                                   "hidden",
                                                   "heads",
                                                   "kv-heads",
                                                   "ffn",
                                                   "vocabulary",
                                                   "context",
                                                   "norm",
                                                   "tied",
                                                   "positions",
                                                   "biases",
                                                   "activation",
                                                   "norm-epsilon",
                                                   "rotary-base",
                                                   "dropout-embedding",
                                                   "dropout-attention",
                                                   "dropout-attention-residual",
                                                   "dropout-ffn-residual"};
  return !first.contains(f.name);
}

template <class Json> std::string text_of(const Json& value, base::FieldKind kind) {
  if (value.is_string()) return value.template get<std::string>();
  if (value.is_boolean()) return value.template get<bool>() ? "on" : "off";
  if (value.is_number_float()) return fmt::format("{}", value.template get<double>());
  if (value.is_number()) return value.dump();
  if (value.is_array() && kind == base::FieldKind::integers) {
    std::vector<std::string> numbers;
    for (const auto& element : value) {
      if (!element.is_number_integer()) throw base::UsageError("a list holds something else than whole numbers");
      numbers.push_back(element.dump());
    }
    return fmt::format("{}", fmt::join(numbers, ","));
  }
  throw base::UsageError(fmt::format("a value is {}, neither text nor number", value.type_name()));
}

}  // namespace

nlohmann::ordered_json model_to_json(const ModelConfig& model) {
  auto m = model;
  ModelConfig usual;
  const auto usual_fields = fields_of(usual);
  auto out = nlohmann::ordered_json::object();
  for (std::size_t i = 0; const auto& f : fields_of(m))
    if (const auto& other = usual_fields[i++]; !came_later(f) || f.get() != other.get()) out[key_of(f)] = json_of(f);
  return out;
}

nlohmann::ordered_json known_model_keys(const nlohmann::json& model) {
  if (!model.is_object()) return model;
  ModelConfig any;
  auto known = nlohmann::ordered_json::object();
  for (const auto& f : fields_of(any))
    if (const auto found = model.find(key_of(f)); found != model.end()) known[key_of(f)] = *found;
  return known;
}

ModelConfig model_from_json(const nlohmann::ordered_json& json, const std::string& where, const std::string& way_out) {
  if (!json.is_object()) throw base::InputError(fmt::format("{} must be an object", where), way_out);
  ModelConfig m;
  auto fields = fields_of(m);
  base::Spellings given;
  try {
    for (const auto& [key, value] : json.items()) {
      auto& field = base::field_named_once(fields, key, where, given);
      const auto text = text_of(value, field.kind);
      if (text.size() > longest_text(field) && field.kind != base::FieldKind::integers)
        throw base::UsageError(fmt::format("{}: {} is {}", where, key, base::excerpt(text)),
                               fmt::format("at most {} bytes", longest_text(field)));
      try {
        field.set(text, fmt::format("{}: {}", where, key));
      } catch (const base::UsageError& e) {
        if (field.name != "branches" || !e.hint().empty()) throw;
        throw base::UsageError(e.what(),
                               "this program does not have the branch: read the file with the program that "
                               "wrote it, which registers a branch of its own");
      }
      field.source = where;
    }
  } catch (const base::UsageError& e) {
    throw base::InputError(std::string(e.what()).starts_with(where) ? e.what() : fmt::format("{}: {}", where, e.what()),
                           e.hint().empty() ? way_out : e.hint());
  }
  for (const auto& f : fields)
    if (f.source == base::from_default && !came_later(f))
      throw base::InputError(fmt::format("{}: key '{}' is missing", where, key_of(f)), way_out);
  return m;
}

nlohmann::json current_form(const nlohmann::json& model) {
  if (!model.is_object()) return model;
  ModelConfig m;
  auto fields = fields_of(m);
  auto out = nlohmann::json::object();
  for (const auto& [key, value] : model.items()) {
    out[with_underscores(key)] = value;
    try {
      auto& field = base::field_named(fields, key, "");
      const auto usual = field.get();
      field.set(text_of(value, field.kind), key);
      if (came_later(field) && field.get() == usual) out.erase(with_underscores(key));
      else out[with_underscores(key)] = field.kind == base::FieldKind::text ? value : nlohmann::json(json_of(field));
    } catch (const base::UsageError&) {  // a key of another program, or a value outside today's range
    }
  }
  return out;
}

}  // namespace trainyard::plan
