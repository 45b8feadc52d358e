// Both directions beside one another.
#include "libtrain/engine/start_json.h"

#include "libtrain/base/text.h"

namespace trainyard::engine {

namespace {

std::string path_in(const nlohmann::json& json, const char* key) {
  return base::path_of_text(json.at(key).get<std::string>());
}

}  // namespace

void to_json(nlohmann::json& json, const LanesOfRun& lanes) {
  json = {{"lanes", lanes.lanes}, {"checkpoint", base::text_of_path(lanes.checkpoint)}};
}
void from_json(const nlohmann::json& json, LanesOfRun& lanes) {
  lanes = {.lanes = json.at("lanes"), .checkpoint = path_in(json, "checkpoint")};
}

void to_json(nlohmann::json& json, const AutoLayout& layout) {
  json = {{"zero", layout.zero}, {"recompute", plan::recomputation_text(layout.recompute)}, {"text", layout.text}};
}
void from_json(const nlohmann::json& json, AutoLayout& layout) {
  layout = {.zero = json.at("zero"),
            .recompute = plan::recomputation_of_text(json.at("recompute"), "recompute"),
            .text = json.at("text")};
}

void to_json(nlohmann::json& json, const Start& start) {
  json = {{"path", base::text_of_path(start.path)},
          {"weights_only", start.weights_only},
          {"step", start.step},
          {"samples_seen", start.samples_seen},
          {"tokens_seen", start.tokens_seen},
          {"skipped_steps", start.skipped_steps},
          {"own", start.own},
          {"newest", start.newest},
          {"damaged", nlohmann::json::array()}};
  if (start.loss_scale) json["loss_scale"] = checkpoint::loss_scale_to_json(*start.loss_scale);
  if (start.outlier_window) json["outlier_window"] = checkpoint::outlier_window_to_json(*start.outlier_window);
  for (const auto& path : start.damaged) json["damaged"].push_back(base::text_of_path(path));
}
void from_json(const nlohmann::json& json, Start& start) {
  start = {.path = path_in(json, "path"),
           .weights_only = json.at("weights_only"),
           .step = json.at("step"),
           .samples_seen = json.at("samples_seen"),
           .tokens_seen = json.at("tokens_seen"),
           .skipped_steps = json.at("skipped_steps"),
           .own = json.at("own"),
           .newest = json.at("newest"),
           .damaged = {}};
  if (json.contains("loss_scale"))
    start.loss_scale = checkpoint::loss_scale_from_json(json.at("loss_scale"), "loss_scale");
  if (json.contains("outlier_window"))
    start.outlier_window = checkpoint::outlier_window_from_json(json.at("outlier_window"), "outlier_window");
  for (const auto& path : json.at("damaged")) start.damaged.push_back(base::path_of_text(path.get<std::string>()));
}

}  // namespace trainyard::engine
