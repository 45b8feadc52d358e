// Adds up the lines of an evaluation.
#include "libtrain/checkpoint/expert_use.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace trainyard::checkpoint {

namespace {

constexpr std::int64_t most_choices = std::int64_t{1} << 53;  // of one expert, in all lines together
std::string how() { return base::text("make it anew: train $evaluate CHECKPOINT $json > FILE"); }

LayerUse layer_use(const nlohmann::json& json, const std::string& where) {
  if (!json.is_object()) throw base::InputError(where + ": a layer that is no object", how());
  base::BasicJsonObject<nlohmann::json> object(json, where, how());
  LayerUse use;
  use.layer = object.integer("layer", 0);
  for (const auto& n : object.array("choices")) {
    if (!n.is_number_integer() || n < 0 || n > most_choices)
      throw base::InputError(fmt::format("{}: layer {} has choices that are no counts", where, use.layer), how());
    use.choices.push_back(n.get<std::int64_t>());
  }
  return use;
}

ExpertUse line_use(const std::string& line, const std::string& where) {
  const auto json = base::parse_json<nlohmann::json>(line, where);
  if (!json.is_object()) throw base::InputError(where + ": no evaluation as JSON", how());
  base::BasicJsonObject<nlohmann::json> object(json, where, how());
  ExpertUse use;
  use.step = object.integer("step", 0);
  if (!object.has("experts"))
    throw base::InputError(where + ": an evaluation of a model without experts, or one that did not count their use",
                           how());
  for (const auto& layer : object.array("experts")) use.layers.push_back(layer_use(layer, where));
  return use;
}

void add(const ExpertUse& line, ExpertUse& all, const std::string& where) {
  const auto refuse = [&] {
    throw base::InputError(where + ": not of the same checkpoint as the lines before it", how());
  };
  if (line.step != all.step || line.layers.size() != all.layers.size()) refuse();
  for (std::size_t i = 0; i < line.layers.size(); ++i) {
    const auto& from = line.layers[i];
    auto& to = all.layers[i];
    if (from.layer != to.layer || from.choices.size() != to.choices.size()) refuse();
    for (std::size_t e = 0; e < from.choices.size(); ++e)
      if ((to.choices[e] += from.choices[e]) > most_choices)
        throw base::InputError(fmt::format("{}: the choices of layer {} add up to too much", where, to.layer), how());
  }
}

}  // namespace

ExpertUse expert_use_from_text(const std::string& text, const std::string& where) {
  ExpertUse use;
  int number = 0, found = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    at = end + 1, ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto of_line = fmt::format("{}: line {}", where, number);
    if (const auto one = line_use(line, of_line); found++ == 0) use = one;
    else add(one, use, of_line);
  }
  if (found == 0) throw base::InputError(where + ": no evaluation", how());
  return use;
}

void require_use_of(const plan::ModelConfig& model, const ExpertUse& use, const std::string& where) {
  const auto refuse = [&](const std::string& what) {
    throw base::InputError(fmt::format("{}: {}", where, what), how());
  };
  std::size_t at = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!plan::layer_has_experts(model, layer)) continue;
    const auto experts = plan::expert_count(plan::layer_model(model, layer));
    if (at == use.layers.size() || use.layers[at].layer != layer)
      refuse(fmt::format("it has no choices of layer {}, which has {}", layer, base::counted(experts, "expert")));
    if (const auto found = std::ssize(use.layers[at].choices); found != experts)
      refuse(fmt::format("it has choices of {} of layer {}, which has {}", base::counted(found, "expert"), layer,
                         experts));
    ++at;
  }
  if (at < use.layers.size())
    refuse(fmt::format("it has choices of layer {}, which has no experts", use.layers[at].layer));
}

}  // namespace trainyard::checkpoint
