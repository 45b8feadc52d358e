// Settings with the trait `identity` become keys.
#include "libtrain/engine/identity_json.h"

#include "libtrain/base/error.h"
#include "libtrain/engine/outlier_steps.h"
#include "libtrain/engine/parameter_groups.h"
#include "libtrain/plan/model_file/field_json.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/spec/objective.h"
#include "libtrain/plan/spec/optimizer_kind.h"

#include <algorithm>

namespace trainyard::engine {

namespace {

// Words are kept as the user writes them. Only plans write them with underscores.
nlohmann::json value_of(const base::Field& f) {
  return f.kind == base::FieldKind::word ? nlohmann::json(f.get()) : nlohmann::json(plan::json_of(f));
}

nlohmann::json model_without_names(plan::ModelConfig model) {
  nlohmann::json out = plan::model_to_json(model);
  for (const auto& f : plan::fields_of(model))
    if (plan::is_name(f)) out.erase(plan::key_of(f));
  return out;
}

}  // namespace

nlohmann::json identity_of(const RunConfig& config, const plan::Plan& plan, const data::SetIndex& index,
                           const std::optional<data::Masking>& masking, Task task) {
  auto decided = config;
  const bool has_source = plan.source_sequence > 0;
  decided.sequence = plan.sequence, decided.source_sequence = plan.source_sequence;
  decided.objective = has_source ? name_of(task) : plan::name_of(plan::objective_of(plan.model));
  if (masking) decided.mask_rate = masking->rate;
  if (corrupts(task)) decided.mask_rate = mask_rate_of(config, task), decided.mask_span = mask_span_of(config, task);
  const auto rate = learning_rate_of(decided);
  decided.start_learning_rate = rate.start, decided.final_learning_rate = rate.final;
  decided.warmup_steps = static_cast<double>(rate.warmup_steps);
  decided.decay_steps = static_cast<double>(rate.decay_steps);
  decided.skip_outliers = text_of(outlier_rule(decided.skip_outliers));
  decided.groups = text_of(parameter_groups(decided.groups));
  const auto& optimizer = plan::optimizer_kind(plan.optimizer);
  nlohmann::json out{{"model", model_without_names(plan.model)}, {"data", data::identity_of(index)}};
  for (const auto& f : fields_of(decided)) {
    if (f.name == "mask-words" && !masking) continue;
    if (f.name == "mask-rate" && !masking && !corrupts(task)) continue;
    if (f.name == "mask-span" && !corrupts(task)) continue;
    if (f.name == "source-sequence" && !has_source) continue;
    if (f.name == "alternate-sets" && !decided.alternate_sets) continue;
    if (f.name == "skip-outliers" && decided.skip_outliers == "none") continue;
    if (f.name == "answers-only" && !decided.answers_only) continue;
    if (f.name == "group" && decided.groups.empty()) continue;
    if (f.name == "layer-decay" && decided.layer_decay == 1) continue;
    if (f.name == "ema" && decided.ema == 0) continue;
    if (f.name == "label-smoothing" && decided.label_smoothing == 0) continue;
    if (f.has(base::FieldTrait::identity) || optimizer.reads(f.name)) out[plan::key_of(f)] = value_of(f);
  }
  if (optimizer.name != plan::default_optimizer) out["optimizer"] = optimizer.name;
  if (masking) out["mask_token"] = masking->mask_token;
  return out;
}

std::optional<LearningRate> learning_rate_of(const nlohmann::json& identity) {
  const auto is_number = [&](const char* key) { return identity.contains(key) && identity[key].is_number(); };
  const auto keys = {"learning_rate", "final_learning_rate", "warmup_steps", "decay_steps", "steps"};
  if (!identity.contains("schedule") || !identity["schedule"].is_string() ||
      !std::all_of(keys.begin(), keys.end(), is_number))
    return std::nullopt;
  LearningRate rate;
  try {
    rate = schedule_of(identity["schedule"]);
  } catch (const base::UsageError&) {
    return std::nullopt;
  }
  rate.peak = identity["learning_rate"], rate.final = identity["final_learning_rate"];
  if (is_number("start_learning_rate")) rate.start = identity["start_learning_rate"];
  rate.warmup_steps = identity["warmup_steps"], rate.decay_steps = identity["decay_steps"];
  rate.total_steps = identity["steps"];
  return rate;
}

}  // namespace trainyard::engine
