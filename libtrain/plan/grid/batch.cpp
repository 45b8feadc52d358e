// The sentence about replicas that are idle in an uneven last accumulation step.
#include "libtrain/plan/grid/batch.h"

#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

namespace trainyard::plan {

std::string idle_text(const BatchPlan& b) {
  const auto places = b.accumulation_steps() * b.data_ranks, idle = places - b.accumulation_groups();
  if (idle * 10 < places) return {};
  const auto group = b.micro_batch * b.local_accumulation;
  const auto fewer = (b.accumulation_groups() + b.accumulation_steps() - 1) / b.accumulation_steps();
  return base::text(
      "{} of {} replicas are idle in {}: {} would take as many accumulation steps, or choose a $global-batch that is "
      "a multiple of {}",
      idle, b.data_ranks, b.accumulation_steps() == 1 ? "every step" : "the last accumulation step of every step",
      fewer, b.data_ranks * group);
}

}  // namespace trainyard::plan
