// Calls and bytes of a step.
#include "libtrain/plan/traffic.h"

#include "libtrain/plan/accesses.h"

namespace trainyard::plan {

namespace {

// Stage 3: every lease of a round gathers its unit.
Traffic gathers_of(const UnitSet& set, const std::vector<Use>& leases, std::int64_t rounds, std::int64_t element_bytes) {
  std::int64_t pieces = 0;
  for (const auto& use : leases) pieces += set.piece_of(use);
  return {"data", "all_gather", rounds * static_cast<std::int64_t>(leases.size()), rounds * (set.pieces - 1) * pieces * element_bytes};
}

}  // namespace

std::vector<Traffic> step_traffic(const ModelConfig& model, const StateShape& shape, Reduction reduction, int data_rank) {
  const auto& batch = shape.batch;
  const UnitSet set(model, batch.data_ranks);
  const std::int64_t others = batch.data_ranks - 1, w = base::size_of(shape.working), g = base::size_of(shape.gradient);
  const auto turns = batch.turns();
  std::int64_t sending_turns = 0, micro_rounds = 0;
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    if (reduction == Reduction::fast || batch.group_of(data_rank, turn) >= 0) ++sending_turns;
    const auto longest = batch.group_of(0, turn);  // rank 0's group is never shorter than another's in the same turn
    micro_rounds += batch.end_micro(longest) - batch.first_micro(longest);
  }
  std::vector<Traffic> out;
  const auto reductions = turns * static_cast<std::int64_t>(set.uses.size());
  const bool library = reduction == Reduction::fast && others > 0;
  out.push_back({"data", library ? "reduce_scatter" : "ordered_reduce_scatter", reductions, sending_turns * others * set.piece_total_uses() * g});
  if (shape.zero == 3) {
    out.push_back(gathers_of(set, leases_of(training_accesses(model)), micro_rounds, w));
  } else if (others > 0) {
    out.push_back({"data", "all_gather", static_cast<std::int64_t>(set.units.size()), others * set.piece_total() * (shape.zero == 0 ? g : w)});
  }
  return out;
}

std::vector<Traffic> validation_traffic(const ModelConfig& model, const StateShape& shape, std::int64_t sequences) {
  const auto d = shape.batch.data_ranks;
  if (shape.zero != 3 || d == 1) return {};
  const auto micros = sequences / shape.batch.micro_batch;
  return {gathers_of(UnitSet(model, d), leases_of(evaluation_accesses(model)), (micros + d - 1) / d, base::size_of(shape.working))};
}

}  // namespace trainyard::plan
