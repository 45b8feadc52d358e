// What activations elsewhere do not go with.
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/extent.h"

#include <fmt/format.h>

namespace trainyard::plan {

namespace {
constexpr int most_input_extents = 10'000'000;
}

void activation_offload_problems(const Plan& p, std::vector<Problem>& out) {
  const auto place = p.offload.activations.place;
  if (place == Place::device) return;
  const auto text = base::text("$offload {}", offload_text(p.offload));
  if (p.device == base::DeviceKind::cpu && place == Place::host) {
    // offload_problems says the same of states.
    if (!p.offload.of_states())
      out.push_back({base::text("{}: the ranks compute on the CPU, whose memory is the host's", text),
                     base::text("disk in place of host")});
    return;
  }
  if (p.recompute.full == 0)
    out.push_back({base::text("{}: with $recompute {} layers keep more than their inputs, and only inputs lie there",
                              text, recomputation_text(p.recompute)),
                   base::text("$recompute full")});
  // In floating point, which cannot overflow.
  const double ranks = p.topology.size(Axis::data),
               inputs = static_cast<double>(p.global_batch) / ranks * static_cast<double>(p.sequence) *
                        static_cast<double>(p.model.layers) * static_cast<double>(p.model.hidden),
               bytes = inputs * static_cast<double>(base::size_of(p.dtype));
  if (bytes > largest_extent)
    out.push_back({fmt::format("{}: a rank would write up to {:.2g} bytes in a step: that is too large to be planned",
                               text, bytes),
                   base::text("a smaller $global-batch or $sequence")});
  // An extent for each layer and micro-batch in flight, which a rank keeps a list of. Where forward and backward passes
  // alternate, few are.
  const bool all_at_once = p.breadth_first(p.batch()) || p.pipeline_schedule == PipelineSchedule::gpipe;
  const double extents = !all_at_once ? 0
                                      : static_cast<double>(p.model.layers) * static_cast<double>(p.global_batch) /
                                            (static_cast<double>(p.micro_batch) * ranks);
  if (bytes <= largest_extent && extents > most_input_extents)
    out.push_back({fmt::format("{}: a rank would keep up to {:.2g} inputs of layers, and it keeps a list of at most {}",
                               text, extents, most_input_extents),
                   base::text("a larger $micro-batch, or a smaller $global-batch")});
}

}  // namespace trainyard::plan
