// What offload does not go with.
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"

#include <fmt/format.h>

namespace trainyard::plan {

void offload_problems(const Plan& p, std::vector<Problem>& out) {
  const auto& o = p.offload;
  if (!o.of_states()) return;
  const auto report = [&](std::string message, std::string hint) {
    out.push_back({std::move(message), std::move(hint)});
  };
  const auto text = base::text("$offload {}", offload_text(o));
  if (p.device == base::DeviceKind::cpu && o.uses(Place::host)) {
    report(fmt::format("{}: the ranks compute on the CPU, whose memory is the host's", text),
           base::text("disk in place of host"));
    return;
  }
  const bool parameters = o.parameters.place != Place::device, gradients = o.gradients.place != Place::device,
             states = o.optimizer.place != Place::device;
  if (parameters && p.zero != 3)
    report(base::text("{}: with $zero {} every rank holds whole weights in memory", text, p.zero),
           base::text("$zero 3, also on one rank"));
  if (parameters && zero_group_of(p, p.topology.size(Axis::data)) > 1)
    report(
        base::text("{}: with $zero-group {} all weights are in the memory of each group of ranks", text, p.zero_group),
        base::text("leave $zero-group out, or offload optimizer or gradients alone"));
  if (gradients && p.zero < 2)
    report(base::text("{}: with $zero {} every rank holds whole gradients in memory", text, p.zero),
           base::text("$zero 2 or 3, also on one rank"));
  const auto batch = p.batch();
  if (gradients && p.zero >= 2 && batch.accumulation_steps() > 1 && !p.breadth_first(batch))
    report(base::text("{}: depth first, a layer's gradient is complete only in the last of {} accumulation steps", text,
                      batch.accumulation_steps()),
           p.pipeline > 1 && p.pipeline_schedule != PipelineSchedule::gpipe
               ? base::text("$accumulation-order breadth with $pipeline-schedule gpipe")
               : base::text("$accumulation-order breadth"));
  if (states && p.zero == 0 && batch.data_ranks > 1)
    report(base::text("{}: with $zero 0 each of {} replicas would keep all states there", text, batch.data_ranks),
           base::text("$zero 1, 2 or 3"));
  if (p.master != MasterFormat::f32 && (parameters || states || p.device == base::DeviceKind::cuda))
    report(
        base::text("{}: $master remainder keeps half of each master in the weights, and both would move apart", text),
        base::text("$master f32"));
  const auto& kind = optimizer_kind(p.optimizer);
  if (kind.collective != OptimizerKind::Collective::none)
    report(base::text("{}: $optimizer {} looks at whole parameters, and an update of offloaded states goes by tiles",
                      text, p.optimizer),
           base::text("$optimizer adamw, adam, lion or sgd"));
}

}  // namespace trainyard::plan
