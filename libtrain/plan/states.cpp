// The sizes of model states, by the same arithmetic that the stores allocate with.
#include "libtrain/plan/states.h"

#include "libtrain/plan/scratch.h"

namespace trainyard::plan {

GradientPlan gradient_plan(const StateShape& s) {
  GradientPlan g;
  const bool several_rounds = s.batch.rounds() > 1;
  g.whole = s.zero <= 1 || s.batch.fold > 1;
  const bool alone =
      s.zero == 0 && s.batch.data_ranks == 1 && !several_rounds;  // the only gradient of the step is the sum
  g.units = s.batch.fold > 1 || !(s.zero == 1 || alone);
  if (s.zero >= 2) g.pieces = true;
  else if (s.batch.fold > 1 || s.zero == 1) g.pieces = several_rounds;
  return g;
}

StateBytes state_bytes(const UnitTable& table, const StateShape& s) {
  const std::int64_t w = base::size_of(s.working), g = base::size_of(s.gradient);
  const auto gradients = gradient_plan(s);
  const SlotPlan slots(table, s.layer_slots);
  StateBytes b;
  b.parameters = (s.zero == 3 ? table.piece_total() : table.padded_total()) * w;
  b.gathered_units = s.zero == 3 ? slots.bytes(w) : 0;
  b.gradients = (gradients.whole ? table.contributed_total_uses() * g : 0) +
                (gradients.pieces ? table.piece_total_uses() * g : 0);
  b.unit_gradients = gradients.units ? SlotPlan(table, s.layer_slots, SlotPlan::Of::gradients).bytes(g) : 0;
  const std::int64_t states = 8 + (s.working == base::DType::bf16 ? 4 : 0);
  b.optimizer = (s.zero == 0 ? table.padded_total() : table.piece_total()) * states;
  b.communication_staging = base::aligned(table.largest_shared() * g);
  b.save_snapshot = table.piece_total() * (w + states);
  return b;
}

}  // namespace trainyard::plan
