// Tasks follow from the model and the sets; settings that would mean nothing are refused.
#include "libtrain/engine/tasks.h"

#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/run_sets.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::engine {

const char* name_of(Task task) {
  switch (task) {
    case Task::windows: return "windows";
    case Task::pairs: return "pairs";
    case Task::spans: return "spans";
    case Task::infilling: return "infilling";
    case Task::infilling_permuted: return "infilling-permuted";
  }
  return "";
}

Task task_of(const RunConfig& c, const plan::ModelConfig& model, const data::SetIndex& index) {
  if (!plan::has_encoder(model)) return Task::windows;
  if (index.pairs) return Task::pairs;
  for (const auto task : {Task::infilling, Task::infilling_permuted})
    if (c.objective == name_of(task)) return task;
  return Task::spans;
}

Task main_task(const std::vector<RunSet>& sets) {
  for (const auto& set : sets)
    if (set.task != Task::pairs) return set.task;
  return Task::pairs;
}

double mask_rate_of(const RunConfig& c, Task task) {
  return c.mask_rate > 0 ? c.mask_rate : infills(task) ? 0.35 : 0.15;
}

double mask_span_of(const RunConfig& c, Task task) { return c.mask_span > 0 ? c.mask_span : infills(task) ? 3.5 : 3; }

void require_settings_of_encoder(const RunConfig& c, const plan::ModelConfig& model) {
  const auto name = base::excerpt(model.name);
  bool of_encoder = false;
  for (const auto task : {Task::spans, Task::infilling, Task::infilling_permuted})
    of_encoder = of_encoder || c.objective == name_of(task);
  base::Complaints wrong;
  if (!plan::has_encoder(model)) {
    if (of_encoder)
      wrong.add(
          base::text("$objective {}: model {} has no encoder, which would read the text with holes", c.objective, name),
          base::text("leave $objective out, or a model file with encoder-layers"));
    if (c.mask_span != 0)
      wrong.add(base::text("$mask-span {} is for models with an encoder", c.mask_span),
                base::text("leave $mask-span out"));
    return wrong.raise();
  }
  if (!of_encoder && c.objective != "auto")
    wrong.add(base::text("$objective {}: model {} has an encoder, which sees whole sources", c.objective, name),
              base::text("$objective spans, infilling or infilling-permuted for texts; sets of pairs need none"));
  if (c.mask_words == "on")
    wrong.add(base::text("$mask-words on: model {} has an encoder, and spans of tokens are hidden", name),
              base::text("leave $mask-words out"));
  if (c.document_mask == "on")
    wrong.add(base::text("$document-mask on: pairs are always kept apart where there is an encoder, and a text that is "
                         "restored is one document"),
              base::text("leave $document-mask out"));
  if (c.answers_only)
    wrong.add(base::text("$answers-only on: all targets count where there is an encoder"),
              base::text("leave $answers-only out"));
  wrong.raise();
}

void take_tasks(const RunConfig& c, const plan::ModelConfig& model, std::vector<RunSet>& sets) {
  for (auto& set : sets) set.task = task_of(c, model, set.index);
  const bool several = sets.size() > 1;
  if (c.alternate_sets && !several)
    throw base::UsageError(base::text("$alternate-sets on: $data {} is one set", base::one_line(c.data)),
                           base::text("leave $alternate-sets out, or name several sets"));
  if (c.alternate_sets && c.batch_ramp.grows())
    throw base::UsageError(base::text("$alternate-sets on needs steps of one size, and $global-batch grows"),
                           base::text("a fixed $global-batch, or leave $alternate-sets out"));
  if (!plan::has_encoder(model)) return;
  if (main_task(sets) == Task::pairs && !is_evaluation(c))
    for (const auto& [name, given] :
         {std::pair("objective", c.objective != "auto"), std::pair("mask-rate", c.mask_rate != 0),
          std::pair("mask-span", c.mask_span != 0)})
      if (given)
        throw base::UsageError(base::text("{} is for texts that are restored, and all of $data {} is pairs",
                                          base::setting_name(name), base::one_line(c.data)),
                               base::text("leave {} out", base::setting_name(name)));
  for (const auto& set : sets)
    if (set.index.packed_sequence > 0)
      throw base::InputError(base::text("{} is packed for models without an encoder", text_of(set)),
                             "make it again with shard-data, and do not pack it");
}

}  // namespace trainyard::engine
