// What a run hides of its data: settings, model and data checked against one another.
#pragma once

#include "libtrain/data/denoising.h"
#include "libtrain/data/masking.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/tasks.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <string>

namespace trainyard::engine {

inline constexpr const char* objective_of_model = "auto";  // value of --objective: follows from the model's attention

// UsageError if --objective, or a setting that only a masked model has, contradicts what the model's queries see.
void require_objective(const RunConfig& config, const plan::ModelConfig& model);

// The token ids that a model needs for the data: the set's vocabulary, and after it the mask token or the sentinels
// that the task has and the set has not.
struct TokensOfModel {
  std::int64_t vocabulary = 0;
  std::int64_t mask_token = -1;  // -1: nothing is hidden
  std::string text;              // "the shards in DATA have 257", and what the mask token adds
};
TokensOfModel tokens_of_model(const RunConfig& config, const data::SetIndex& index, const plan::ModelConfig& model,
                              Task task = Task::windows);

// Call it for a model without problems, so that the mask token is one of its ids.
data::Masking masking_of(const RunConfig& config, const data::SetIndex& index, std::int64_t mask_token);

// How texts are hidden that the model restores, and what is added to the tokens of the set.
data::Denoising denoising_of(const RunConfig& config, const data::SetIndex& index, Task task);

}  // namespace trainyard::engine
