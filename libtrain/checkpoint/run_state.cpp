// RunState as JSON.
#include "libtrain/checkpoint/run_state.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/checkpoint/refuse.h"
#include "libtrain/plan/model_file/model_json.h"

#include <algorithm>
#include <limits>

namespace trainyard::checkpoint {

using nlohmann::json;

namespace {

using Object = base::SortedJsonObject;

template <class E> E choice(Object& o, const char* key, const std::vector<std::pair<const char*, E>>& legal) {
  const auto value = o.text(key);
  for (const auto& [name, e] : legal)
    if (value == name) return e;
  throw base::InputError(fmt::format("{}: {} = {} is unknown to this build", o.where(), key, base::excerpt(value)),
                         "use the version of the programs that wrote it");
}

// f32, and the dtypes that may have an f32 master.
std::vector<std::pair<const char*, base::DType>> weight_dtypes() {
  std::vector<std::pair<const char*, base::DType>> legal;
  for (const auto& t : base::dtype_traits)
    if (t.narrow || t.dtype == base::DType::f32) legal.emplace_back(t.name, t.dtype);
  return legal;
}

const json& object_of(Object& o, const char* key) {
  o.object(key);
  return o.at(key);
}

constexpr auto factored_shapes = {StateShape::rows, StateShape::columns};

// The shapes of states that have another one than their parameter.
std::map<std::string, StateShape> shapes_from_json(Object& optimizer, const std::vector<std::string>& states) {
  auto o = optimizer.object("shapes");
  std::vector<std::pair<const char*, StateShape>> legal;
  for (const auto shape : factored_shapes) legal.emplace_back(name_of(shape), shape);
  std::map<std::string, StateShape> out;
  for (const auto& [state, value] : optimizer.at("shapes").items()) {
    if (std::find(states.begin(), states.end(), state) == states.end())
      throw base::InputError(fmt::format("{}: {} is no state of the optimizer", o.where(), base::excerpt(state)),
                             "restore the checkpoint from a copy");
    out[state] = choice<StateShape>(o, state.c_str(), legal);
  }
  return out;
}

// Names of states lead to datasets of files, so they are checked.
StoredOptimizer optimizer_from_json(Object o) {
  constexpr std::size_t most_states = 16;
  StoredOptimizer out{o.text("name"), {}};
  if (o.has("dtype"))
    out.dtype = choice<base::DType>(o, "dtype", {{"f32", base::DType::f32}, {"bf16", base::DType::bf16}});
  bool legal = plan::is_state_name(out.name);
  for (const auto& state : o.array("states")) {
    out.states.push_back(state.is_string() ? state.get<std::string>() : "");
    legal = legal && plan::is_state_name(out.states.back()) && out.states.size() <= most_states &&
            std::count(out.states.begin(), out.states.end(), out.states.back()) == 1;
    if (!legal) break;
  }
  if (!legal)
    throw base::InputError(
        fmt::format("{}: {} is no optimizer with the names of its states", o.where(),
                    base::excerpt(out.states.empty() ? out.name : out.name + ": " + out.states.back())),
        "restore the checkpoint from a copy");
  if (o.has("shapes")) out.shapes = shapes_from_json(o, out.states);
  return out;
}

// The record of the tokenizer leads to a file, so it is checked. InputError unless it is a name, or an object of names
// and a checksum.
void require_tokenizer_record(const nlohmann::json& provenance, const std::string& where) {
  const auto at = provenance.find("tokenizer");
  if (at == provenance.end() || at->is_null() || at->is_string()) return;
  const auto is = [&](const char* key, bool (nlohmann::json::*kind)() const noexcept) {
    return !at->contains(key) || ((*at)[key].*kind)();
  };
  if (at->is_object() && is("name", &nlohmann::json::is_string) && is("source", &nlohmann::json::is_string) &&
      is("crc32c", &nlohmann::json::is_number_unsigned))
    return;
  throw base::InputError(
      fmt::format("{}: provenance.tokenizer is {}, and no record of a tokenizer", where, base::excerpt(at->dump())),
      "restore the checkpoint from a copy");
}

}  // namespace

std::vector<std::string> StoredOptimizer::names_of(const std::vector<plan::OptimizerState>& states) {
  std::vector<std::string> names;
  for (const auto& state : states) names.push_back(state.name);
  return names;
}

std::map<std::string, StateShape> StoredOptimizer::shapes_of(const std::vector<plan::OptimizerState>& states) {
  std::map<std::string, StateShape> shapes;
  for (const auto& state : states)
    if (state.shape != StateShape::parameter) shapes[state.name] = state.shape;
  return shapes;
}

const char* name_of(StateShape shape) {
  return shape == StateShape::rows ? "rows" : shape == StateShape::columns ? "columns" : "parameter";
}

json loss_scale_to_json(const StoredLossScale& s) {
  return {{"scale", static_cast<std::int64_t>(s.scale)},
          {"clean_steps", s.clean_steps},
          {"hysteresis", s.hysteresis},
          {"skips_in_a_row", s.skips_in_a_row}};
}

StoredLossScale loss_scale_from_json(const json& j, const std::string& where) {
  Object o(j, where);
  const auto scale = o.integer("scale", 1, std::int64_t{1} << 32);
  if ((scale & (scale - 1)) != 0)
    throw base::InputError(fmt::format("{}: scale {} is no power of two", o.where(), scale),
                           "restore the checkpoint from a copy");
  constexpr std::int64_t most = 1'000'000'000;  // of what a rule may ask for (engine/loss_scale.cpp)
  return {.scale = static_cast<double>(scale),
          .clean_steps = o.integer("clean_steps", 0, most),
          .hysteresis = o.integer("hysteresis", 1, most),
          .skips_in_a_row = o.integer("skips_in_a_row", 0, most)};
}

json outlier_window_to_json(const StoredOutlierWindow& s) {
  return {{"gradient_norms", s.gradient_norms}, {"losses", s.losses}, {"skips_in_a_row", s.skips_in_a_row}};
}

StoredOutlierWindow outlier_window_from_json(const json& j, const std::string& where) {
  Object o(j, where);
  const auto numbers = [&](const char* key, double least) {
    std::vector<double> out;
    for (const auto& number : o.array(key)) {
      if (!number.is_number() || !(number.get<double>() >= least) || std::ssize(out) == longest_outlier_window)
        throw base::InputError(
            fmt::format("{}: '{}' must be at most {} numbers{}, found {}", o.where(), key, longest_outlier_window,
                        least == 0 ? " from 0" : "", base::excerpt(number.dump())),
            "restore the checkpoint from a copy");
      out.push_back(number.get<double>());
    }
    return out;
  };
  StoredOutlierWindow out{numbers("gradient_norms", 0), numbers("losses", std::numeric_limits<double>::lowest()),
                          o.integer("skips_in_a_row", 0, longest_outlier_window)};
  if (out.gradient_norms.size() != out.losses.size())
    throw base::InputError(
        fmt::format("{}: {} gradient norms and {} losses", o.where(), out.gradient_norms.size(), out.losses.size()),
        "restore the checkpoint from a copy");
  return out;
}

json state_to_json(const RunState& s) {
  json j{{"step", s.step},
         {"samples_seen", s.samples_seen},
         {"tokens_seen", s.tokens_seen},
         {"seed", s.seed},
         {"dtype", base::name_of(s.dtype)},
         {"model", json(plan::model_to_json(s.model))},
         {"identity", s.identity},
         {"plan", s.plan},
         {"versions", s.versions},
         {"provenance", s.provenance},
         {"isa", s.isa},
         {"device_kind", s.device_kind}};
  if (s.skipped_steps > 0) j["skipped_steps"] = s.skipped_steps;  // absent: 0, as in older checkpoints
  if (s.loss_scale) j["loss_scale"] = loss_scale_to_json(*s.loss_scale);
  if (s.outlier_window) j["outlier_window"] = outlier_window_to_json(*s.outlier_window);
  if (s.contents == Contents::model) j["contents"] = "model";           // absent: all, as in older checkpoints
  if (s.contents == Contents::all && s.optimizer != StoredOptimizer())  // absent: AdamW, as in older checkpoints
    j["optimizer"] = {{"name", s.optimizer.name}, {"states", s.optimizer.states}};
  if (s.contents == Contents::all && s.optimizer.dtype != base::DType::f32)  // absent: f32, as in older checkpoints
    j["optimizer"]["dtype"] = base::name_of(s.optimizer.dtype);
  if (s.contents == Contents::all)  // absent: the shape of the parameter, as in older checkpoints
    for (const auto& [name, shape] : s.optimizer.shapes) j["optimizer"]["shapes"][name] = name_of(shape);
  return j;
}

RunState state_from_json(const json& j, const std::string& where) {
  Object o(j, where);
  RunState s;
  s.step = o.integer("step", 0);
  s.samples_seen = o.integer("samples_seen", 0);
  s.tokens_seen = o.integer("tokens_seen", 0);
  if (o.has("skipped_steps")) s.skipped_steps = o.integer("skipped_steps", 0);
  if (s.skipped_steps > s.step)
    throw base::InputError(fmt::format("{}: {} of {} are skipped", o.where(), base::counted(s.skipped_steps, "step"),
                                       base::counted(s.step, "step")),
                           "restore the checkpoint from a copy");
  if (o.has("loss_scale")) s.loss_scale = loss_scale_from_json(o.at("loss_scale"), where + ": loss_scale");
  if (o.has("outlier_window"))
    s.outlier_window = outlier_window_from_json(o.at("outlier_window"), where + ": outlier_window");
  s.seed = o.unsigned_integer("seed");
  s.dtype = choice<base::DType>(o, "dtype", weight_dtypes());
  if (o.has("contents"))
    s.contents = choice<Contents>(o, "contents", {{"all", Contents::all}, {"model", Contents::model}});
  if (o.has("optimizer")) s.optimizer = optimizer_from_json(o.object("optimizer"));
  s.model = plan::model_from_json(plan::known_model_keys(o.at("model")), where + ": model", way_to_whole());
  s.identity = object_of(o, "identity");
  s.plan = object_of(o, "plan");
  s.versions = object_of(o, "versions");
  s.provenance = object_of(o, "provenance");
  require_tokenizer_record(s.provenance, where);
  s.isa = o.text("isa");
  s.device_kind = o.text("device_kind");
  return s;
}

}  // namespace trainyard::checkpoint
