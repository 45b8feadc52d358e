// Sizes of model states, by the arithmetic that the stores allocate with.
#include "libtrain/plan/cost/states.h"

#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/cost/factored_moments.h"
#include "libtrain/plan/cost/parameter_norms.h"

namespace trainyard::plan {

GradientPlan gradient_plan(const StateShape& s, int sources) {
  if (sources > 1 && s.batch.local_accumulation == 1) return {s.zero == 0, s.zero > 0, true};
  GradientPlan g;
  const bool several_accumulation_steps = s.batch.accumulation_steps() > 1;
  g.whole = s.zero <= 1 || s.batch.local_accumulation > 1;
  // The only gradient of the step is the sum.
  const bool alone = s.zero == 0 && s.batch.data_ranks == 1 && !several_accumulation_steps;
  g.buffers = s.batch.local_accumulation > 1 || !(s.zero == 1 || alone);
  if (s.zero >= 2) g.shards = true;
  else if (s.batch.local_accumulation > 1 || s.zero == 1) g.shards = several_accumulation_steps;
  return g;
}

std::int64_t kept_sources(const StateShape& s, int sources) { return s.batch.local_accumulation == 1 ? 1 : sources; }

SlotPlan gradient_slots(const FlatGroupTable& table, const StateShape& s) {
  return {table, s.gathered_layers, [&](const FlatGroupEntry& e) { return gradient_plan(s, e.contributions).buffers; },
          s.breadth_first};
}

StateBytes state_bytes(const FlatGroupTable& table, const StateShape& s) {
  const std::int64_t w = base::size_of(s.working), g = base::size_of(s.gradient);
  const SlotPlan slots(table, s.gathered_layers);
  StateBytes b;
  b.parameters = (s.zero == 3 ? table.shard_total() : table.padded_total()) * w;
  b.gathered_weights = s.zero == 3 ? slots.bytes(w) : 0;
  for (const auto& e : table.entries()) {
    const auto gradients = gradient_plan(s, e.contributions);
    const auto kept = (gradients.whole ? kept_sources(s, e.contributions) * e.layout.padded : 0) +
                      (gradients.shards ? e.layout.shard : 0);
    b.gradients += e.times * e.occurrences * kept * g;
  }
  b.micro_batch_gradients = gradient_slots(table, s).bytes(g);
  const std::int64_t states = s.optimizer->state_bytes() + master_bytes(s.working);
  b.optimizer = (s.zero == 0 ? table.padded_total() : table.shard_total()) * states +
                parameter_norm_bytes(table, *s.optimizer) + factored_moment_bytes(table, *s.optimizer);
  b.communication_staging = base::aligned(table.largest_shared() * g);
  b.save_snapshot = table.shard_total() * (w + states) + factored_state_bytes(table, *s.optimizer);
  return b;
}

}  // namespace trainyard::plan
