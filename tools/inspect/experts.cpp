// Reads the experts' numbers from metrics lines, and makes the report.
#include "tools/inspect/experts.h"

#include "libtrain/base/error.h"
#include "libtrain/base/text.h"
#include "tools/inspect/text.h"

#include <cmath>
#include <map>

namespace trainyard::inspect {

namespace {

std::int64_t whole_at(const nlohmann::ordered_json& values, const char* key, std::int64_t otherwise) {
  const auto found = values.find(key);
  if (found == values.end() || !found->is_number_unsigned()) return otherwise;
  constexpr std::uint64_t most = 1'000'000'000;
  const auto value = found->get<std::uint64_t>();
  return value > most ? otherwise : static_cast<std::int64_t>(value);
}

constexpr std::int64_t most_steps = 1'000'000'000'000;  // more than any run has

}  // namespace

ExpertHistory read_expert_history(const std::string& file) {
  std::map<std::int64_t, ExpertLayer> layers;
  ExpertHistory out;
  engine::each_whole_metrics_line(file, [&](const engine::MetricsLine& line) {
    const auto experts = line.values.find("experts");
    if (experts == line.values.end() || !experts->is_object() || line.step > most_steps) return true;
    const auto of_layers = experts->find("layers");
    if (of_layers == experts->end() || !of_layers->is_array()) return true;
    bool any = false;
    for (const auto& v : *of_layers) {
      const auto number = v.is_object() ? whole_at(v, "layer", -1) : -1;
      if (number < 0) continue;
      auto& layer = layers[number];
      layer.layer = number;
      layer.experts = whole_at(v, "experts", layer.experts);
      ExpertSample s;
      s.step = line.step;
      const auto take = [&](const char* key, double& value) { value = number_at(v, key).value_or(absent); };
      take("fullest", s.fullest), take("emptiest", s.emptiest), take("dropped_share", s.dropped_share);
      take("balance_loss", s.balance_loss), take("z_loss", s.z_loss), take("entropy", s.entropy);
      layer.samples.push_back(s);
      any = true;
    }
    if (!any) return true;
    out.first = out.steps == 0 ? line.step : std::min(out.first, line.step);
    out.last = out.steps == 0 ? line.step : std::max(out.last, line.step);
    ++out.steps;
    return true;
  });
  if (out.steps == 0)
    throw base::InputError(fmt::format("{} says nothing of experts", file),
                           "train writes it for models with experts: experts-count in the model's file, or a preset "
                           "like moe-nano");
  for (auto& [number, layer] : layers) out.layers.push_back(std::move(layer));
  return out;
}

nlohmann::json experts_json(const ExpertHistory& history) {
  auto layers = nlohmann::json::array();
  for (const auto& layer : history.layers) {
    nlohmann::json j{{"layer", layer.layer}, {"experts", layer.experts}};
    const auto add = [&](const char* key, double ExpertSample::*value) {
      auto& pairs = j[key] = nlohmann::json::array();
      for (const auto& s : layer.samples)
        if (!std::isnan(s.*value)) pairs.push_back({s.step, number_or_null(s.*value)});
    };
    add("fullest", &ExpertSample::fullest), add("emptiest", &ExpertSample::emptiest);
    add("dropped_share", &ExpertSample::dropped_share);
    add("balance_loss", &ExpertSample::balance_loss), add("z_loss", &ExpertSample::z_loss);
    add("entropy", &ExpertSample::entropy);
    layers.push_back(std::move(j));
  }
  return {{"steps", history.steps}, {"first_step", history.first}, {"last_step", history.last}, {"layers", layers}};
}

Report experts_report(const std::string& path) {
  const auto file = metrics_file(path, "--experts");
  const auto history = read_expert_history(file);
  Report report;
  report.json = experts_json(history);
  report.json["kind"] = "experts", report.json["path"] = path;
  report.text = fmt::format("experts of {}\n", base::one_line(path)) +
                experts_text(history, tools::terminal_columns(), tools::glyphs_of_terminal());
  report.drawing = [history, path] { return experts_drawing(history, path); };
  return report;
}

}  // namespace trainyard::inspect
