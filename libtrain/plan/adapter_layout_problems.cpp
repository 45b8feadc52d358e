// What low-rank adapters do not go with.
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/spec/conditions.h"

namespace trainyard::plan {

void adapter_layout_problems(const Plan& p, std::vector<Problem>& out) {
  if (!has_adapter(p.model)) return;
  if (p.offload.any())
    out.push_back({base::text("$offload moves states and weights between passes, and adapters have no such form"),
                   base::text("leave $offload out: frozen weights have no gradients and no states")});
  if (optimizer_kind(p.optimizer).has_factored_states())
    out.push_back(
        {base::text("$optimizer {} keeps sums of rows and columns, which are not made for adapters", p.optimizer),
         base::text("$optimizer adamw")});
  if (p.pipeline_schedule == PipelineSchedule::zero_bubble)
    out.push_back(
        {base::text("$pipeline-schedule zero-bubble computes weight gradients later, and those of adapters are "
                    "computed with the gradients of inputs"),
         base::text("$pipeline-schedule 1f1b")});
  if (p.tensor > 1 && p.model.adapter.rank % p.tensor != 0)
    out.push_back(
        {base::text("adapters of rank {} cannot be divided among $tensor-parallel {}", p.model.adapter.rank, p.tensor),
         base::text("a rank that is a multiple of {}", p.tensor)});
}

}  // namespace trainyard::plan
