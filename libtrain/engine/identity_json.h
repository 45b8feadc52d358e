// The identity of a run as a checkpoint records it: a JSON object whose keys are part of the file format.
#pragma once

#include "libtrain/data/masking.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/learning_rate.h"
#include "libtrain/engine/tasks.h"
#include "libtrain/plan/plan.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace trainyard::engine {

// The model and the data, and each setting that is a base::FieldTrait::identity or that the optimizer reads, under its
// key in files (plan::key_of). Sequence, objective and masking have the values that the plan and the model decided.
// Learning rates and their steps are plain numbers, also where the user gave percent or samples.
// Mask settings belong to masked models and to texts that are restored. An optimizer that is AdamW is not named, as in
// older checkpoints, nor a run that skips no outliers.
nlohmann::json identity_of(const RunConfig& config, const plan::Plan& plan, const data::SetIndex& index,
                           const std::optional<data::Masking>& masking, Task task = Task::windows);

// The learning rates that the settings of an identity give. nullopt if it lacks one, as that of an older version may,
// or has a schedule that this version does not know.
std::optional<LearningRate> learning_rate_of(const nlohmann::json& identity);

}  // namespace trainyard::engine
