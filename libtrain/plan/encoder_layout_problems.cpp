// What encoder-decoder models do not go with, and the lengths of their sequences.
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/spec/conditions.h"

namespace trainyard::plan {

void encoder_layout_problems(const Plan& p, std::vector<Problem>& out) {
  if (!has_encoder(p.model)) {
    if (p.source_sequence > 0)
      out.push_back({base::text("$source-sequence {} is for models with an encoder", p.source_sequence),
                     base::text("leave it out, or a model file with encoder-layers")});
    return;
  }
  if (p.source_sequence < 1)
    out.push_back(
        {base::text("$source-sequence {}: an encoder needs sequences of one token at least", p.source_sequence),
         base::text("$source-sequence {}, as $sequence is", p.sequence)});
  if (p.source_sequence > p.model.context)
    out.push_back(
        {base::text("$source-sequence {} is longer than the model's context {}", p.source_sequence, p.model.context),
         base::text("$source-sequence {} at most", p.model.context)});
  if (p.offload.activations.place != Place::device)
    out.push_back(
        {base::text("$offload {} is not supported with an encoder: inputs of layers lie there in places of one "
                    "size, and sources have another length than targets",
                    offload_text(p.offload)),
         base::text("$offload of states alone, or $recompute full")});
}

}  // namespace trainyard::plan
