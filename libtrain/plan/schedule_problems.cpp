// Checks the schedule of passes.
#include "libtrain/plan/schedule_problems.h"

#include "libtrain/base/setting_text.h"

namespace trainyard::plan {

void schedule_problems(const Plan& p, std::vector<Problem>& out) {
  const bool interleaved = p.pipeline_schedule == PipelineSchedule::interleaved;
  if (p.virtual_stages > 1 && !interleaved)
    out.push_back({base::text("$virtual-stages {} needs $pipeline-schedule interleaved: other schedules have one "
                              "virtual stage a pipeline stage",
                              p.virtual_stages),
                   base::text("$pipeline-schedule interleaved, or $virtual-stages 1")});
  if (p.pipeline == 1 && p.pipeline_schedule != PipelineSchedule::one_f_one_b &&
      p.pipeline_schedule != PipelineSchedule::gpipe)
    out.push_back({base::text("$pipeline-schedule {} needs stages, and $pipeline-parallel is 1", schedule_text(p)),
                   base::text("$pipeline-parallel 2, or leave the schedule out")});
  if (p.pipeline > 1 && p.accumulation_order == AccumulationOrder::breadth &&
      p.pipeline_schedule != PipelineSchedule::gpipe)
    out.push_back({base::text("$accumulation-order breadth computes all forward passes before any backward pass, and "
                              "$pipeline-schedule {} does not",
                              schedule_text(p)),
                   base::text("$pipeline-schedule gpipe, or $accumulation-order depth")});
  if (p.pipeline_schedule == PipelineSchedule::zero_bubble && p.recompute.any())
    out.push_back({base::text("$pipeline-schedule zero-bubble computes weight gradients later, from activations that "
                              "$recompute {} does not keep",
                              recomputation_text(p.recompute)),
                   base::text("$recompute none, or $pipeline-schedule 1f1b")});
}

}  // namespace trainyard::plan
