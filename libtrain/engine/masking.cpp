// The objective follows from the model; the mask from the tokenizer.
#include "libtrain/engine/masking.h"

#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/tasks.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/objective.h"

#include <algorithm>

namespace trainyard::engine {

void require_objective(const RunConfig& c, const plan::ModelConfig& model) {
  require_settings_of_encoder(c, model);
  if (plan::has_encoder(model)) return;
  const auto objective = plan::objective_of(model);
  const auto name = base::excerpt(model.name);
  base::Complaints wrong;
  if (c.objective != objective_of_model && c.objective != plan::name_of(objective)) {
    if (objective == plan::Objective::causal)
      wrong.add(
          base::text("$objective masked: the attention of model {} is causal, so it sees no later tokens", name),
          base::text("set causal = \"off\" in the table [attention] of the model's file, or leave $objective out"));
    else
      wrong.add(base::text("$objective causal: the attention of model {} is not causal, so it would see the tokens "
                           "that it predicts",
                           name),
                base::text("$objective masked, or leave it out"));
  } else if (objective == plan::Objective::causal) {
    const auto hides_nothing = fmt::format("model {} learns the next token, and no token is hidden", name);
    if (c.mask_rate != 0)
      wrong.add(base::text("$mask-rate {}: {}", c.mask_rate, hides_nothing), base::text("leave $mask-rate out"));
    if (c.mask_words == "on")
      wrong.add(base::text("$mask-words on: {}", hides_nothing), base::text("leave $mask-words out"));
  }
  wrong.raise();
}

TokensOfModel tokens_of_model(const RunConfig& c, const data::SetIndex& index, const plan::ModelConfig& model,
                              Task task) {
  TokensOfModel out{index.vocabulary, -1, fmt::format("the shards in {} have {}", c.data, index.vocabulary)};
  if (corrupts(task)) {
    const auto rule = denoising_of(c, index, task);
    out.vocabulary = data::vocabulary_of(rule, index), out.text += data::added_ids_text(rule, index);
    if (const auto* infilling = std::get_if<data::TextInfilling>(&rule)) out.mask_token = infilling->mask_token;
    return out;
  }
  if (plan::objective_of(model) == plan::Objective::causal) return out;
  if (c.from_checkpoint.mask_token >= 0) {
    out.mask_token = c.from_checkpoint.mask_token;
    return out;
  }
  out.mask_token = data::mask_token_of(c.data, index);
  if (out.mask_token < index.vocabulary) return out;
  out.vocabulary = out.mask_token + 1;
  out.text += fmt::format(" and no mask token, which gets the id {}", out.mask_token);
  return out;
}

data::Denoising denoising_of(const RunConfig& c, const data::SetIndex& index, Task task) {
  const auto rate = base::fraction_of(mask_rate_of(c, task));
  if (task == Task::spans) {
    auto rule = data::span_corruption_of(c.data, index);
    rule.rate = rate, rule.mean_span = base::fraction_of(mask_span_of(c, task));
    return rule;
  }
  auto rule = data::text_infilling_of(c.data, index);
  rule.rate = rate, rule.mean_span = mask_span_of(c, task);
  if (task == Task::infilling_permuted) rule.sentence_ends = data::sentence_ends_of_set(c.data, index);
  if (c.from_checkpoint.mask_token >= 0) rule.mask_token = static_cast<std::int32_t>(c.from_checkpoint.mask_token);
  return rule;
}

data::Masking masking_of(const RunConfig& c, const data::SetIndex& index, std::int64_t mask_token) {
  return data::masking_of(c.data, index, mask_rate_of(c, Task::windows),
                          c.mask_words == "on" ? data::Chosen::words : data::Chosen::tokens,
                          static_cast<std::int32_t>(mask_token));
}

}  // namespace trainyard::engine
