// Sizes of model states, by the arithmetic that the stores allocate with.
#include "libtrain/plan/cost/states.h"

#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/cost/factored_moments.h"
#include "libtrain/plan/cost/offload.h"
#include "libtrain/plan/cost/parameter_norms.h"
#include "libtrain/plan/grid/reduction_nodes.h"
#include "libtrain/plan/grid/zero_groups.h"

#include <algorithm>

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
  return {table, s.gathered_layers,
          [&](const FlatGroupEntry& e) { return !e.frozen && gradient_plan(s, e.contributions).buffers; },
          s.breadth_first};
}

namespace {

std::int64_t aligned_sum(const std::vector<std::int64_t>& bytes) {
  std::int64_t n = 0;
  for (const auto b : bytes) n += base::aligned(b);
  return n;
}

// What is elsewhere has no memory of its own here, also not in the snapshot: saving reads it in pieces.
void move_elsewhere(StateBytes& b, const FlatGroupTable& table, const StateShape& s) {
  const OffloadPlan offload(table, s);
  for (const auto& e : offload.extents()) {
    auto& category = e.held == Held::parameter ? b.parameters : e.held == Held::gradient ? b.gradients : b.optimizer;
    category -= e.elements * base::size_of(e.held == Held::gradient ? s.gradient : e.dtype);
    if (e.held == Held::gradient) continue;
    b.save_snapshot -= e.shard * base::size_of(e.dtype);
  }
  b.offload_buffers = offload.buffer_bytes();
  b.offloaded_states = offload.host_bytes();
  if (s.device == base::DeviceKind::cuda) {
    b.gathered_weights += aligned_sum(offload.arrival_bytes());
    b.gradients += aligned_sum(offload.sum_bytes()) + base::aligned(offload.visit_bytes());
    if (offload.rounds_sums()) b.gradients += aligned_sum(offload.leaving_bytes());
  } else if (offload.has_any(Held::parameter, Place::disk)) {
    // A shard that no other rank has a part of is read into the slot itself.
    const SlotPlan slots(table, s.gathered_layers);
    b.gathered_weights = 0;
    for (const auto elements : slots.elements())
      b.gathered_weights += base::storage_bytes(elements * base::size_of(s.working));
  }
}

}  // namespace

StateBytes state_bytes(const FlatGroupTable& table, const StateShape& s) {
  const std::int64_t w = base::size_of(s.working), g = base::size_of(s.gradient);
  const SlotPlan slots(table, s.gathered_layers);
  StateBytes b;
  b.parameters = (s.zero == 3 ? table.shard_total() : table.padded_total()) * w;
  b.gathered_weights = s.zero == 3 ? slots.bytes(w) : 0;
  const ZeroGroups groups(s.topology);
  for (const auto& e : table.entries()) {
    if (s.zero == 3 && groups.any()) b.parameters += e.times * groups.copies() * e.layout.shard * w;
    b.save_snapshot += e.times * e.layout.shard * w;
    if (e.frozen) continue;
    b.save_snapshot += e.times * e.layout.shard * (s.optimizer->state_bytes() + master_bytes(s.working));
    const auto gradients = gradient_plan(s, e.contributions);
    const auto kept = (gradients.whole ? kept_sources(s, e.contributions) * e.layout.padded : 0) +
                      (gradients.shards ? e.layout.shard : 0);
    // The sum of a flat group that no block here uses comes from other stages.
    b.gradients += e.times * std::max<std::int64_t>(1, e.occurrences) * kept * g;
    const auto updated = s.zero == 0 ? e.layout.padded : e.layout.shard;
    b.optimizer += e.times * (updated * s.optimizer->state_bytes() + kept_master_bytes(s.working, s.master, updated));
  }
  b.micro_batch_gradients = gradient_slots(table, s).bytes(g);
  b.optimizer += parameter_norm_bytes(table, *s.optimizer) + factored_moment_bytes(table, *s.optimizer);
  b.communication_staging = base::aligned(reduction_staging(table, s) * g);
  b.save_snapshot += factored_state_bytes(table, *s.optimizer);
  if (s.offload.any()) move_elsewhere(b, table, s);
  return b;
}

std::int64_t reduction_staging(const FlatGroupTable& table, const StateShape& shape) {
  const ReductionNodes nodes(shape.topology);
  std::int64_t most = 0;
  for (const auto& e : table.entries())
    if (e.shards > 1 && !e.frozen)
      most =
          std::max(most, nodes.any() ? node_staging(nodes, {e.layout.shard, shape.reduction_piece}) : e.layout.padded);
  return most;
}

}  // namespace trainyard::plan
