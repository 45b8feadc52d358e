// Tasks: what a run learns of each of its shard sets. The model, the set and the settings say it.
#pragma once

#include "libtrain/data/shard_set.h"
#include "libtrain/engine/config.h"
#include "libtrain/plan/spec/model_config.h"

#include <vector>

namespace trainyard::engine {

struct RunSet;

// windows: of text, as a model without an encoder reads every set. pairs: the target of each source. The others: a text
// from what is left of it (data/span_corruption.h, data/text_infilling.h); permuted: its sentences are in another
// order, too.
enum class Task { windows, pairs, spans, infilling, infilling_permuted };
const char* name_of(Task task);
inline bool infills(Task task) { return task == Task::infilling || task == Task::infilling_permuted; }
inline bool corrupts(Task task) { return task == Task::spans || infills(task); }

// A model with an encoder learns the pairs of a set of pairs, and restores the texts of other sets as $objective says:
// spans, unless it says a form of infilling.
Task task_of(const RunConfig& config, const plan::ModelConfig& model, const data::SetIndex& index);
// The task of a run's texts, or pairs if it has no others.
Task main_task(const std::vector<RunSet>& sets);

// The share of a text that is hidden, and the mean tokens of a span: as the settings say, or what is usual for the task
// (Devlin et al. 2019, section 3.1, for the windows of a masked model; Raffel et al. 2020, section 3.1.4; Liu et al.
// 2020, section 2.1).
double mask_rate_of(const RunConfig& config, Task task);
double mask_span_of(const RunConfig& config, Task task);

// Whether these are the settings of an evaluation, which reads one of a run's sets.
inline bool is_evaluation(const RunConfig& config) {
  return config.from_checkpoint.lanes_of.lanes == plan::Lanes::evaluated;
}
// UsageError for settings that do not go with a model that has an encoder, and for settings of encoders without one.
void require_settings_of_encoder(const RunConfig& config, const plan::ModelConfig& model);
// Sets the task of each set. UsageError or InputError for sets that do not go with the model and the settings.
void take_tasks(const RunConfig& config, const plan::ModelConfig& model, std::vector<RunSet>& sets);

}  // namespace trainyard::engine
