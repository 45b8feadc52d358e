// Calls and bytes of a step.
#include "libtrain/plan/traffic.h"

namespace trainyard::plan {

namespace {

// Stage 3: every lease of a round gathers its unit.
template <class Leases> std::vector<SizedCalls> gathers(const UnitTable& table, std::int64_t rounds, base::DType type, Leases leases) {
  std::vector<SizedCalls> out;
  for (const auto& e : table.entries())
    if (const auto n = rounds * e.times * leases(e); n > 0) out.push_back({"all_gather", type, e.layout.padded * base::size_of(type), n, n});
  return out;
}

std::vector<Traffic> added_up(const std::vector<SizedCalls>& calls, int ranks) {
  std::vector<Traffic> out;
  for (const auto& c : calls) {
    if (out.empty() || out.back().operation != c.operation) out.push_back({"data", c.operation, 0, 0});
    out.back().calls += c.calls;
    out.back().bytes += c.sending * (c.bytes / ranks * (ranks - 1));
  }
  return out;
}

}  // namespace

std::vector<SizedCalls> step_calls(const ModelConfig& model, const StateShape& shape, Reduction reduction, int data_rank) {
  const auto& batch = shape.batch;
  const UnitTable table(model, batch.data_ranks);
  const bool alone = batch.data_ranks == 1, library = reduction == Reduction::fast && !alone;
  const auto sending = reduction == Reduction::fast ? batch.turns() : batch.turns_of(data_rank);
  std::vector<SizedCalls> out;
  for (const auto& e : table.entries()) {
    const auto uses = e.times * e.uses;
    out.push_back({library ? "reduce_scatter" : "ordered_reduce_scatter", shape.gradient, e.layout.padded * base::size_of(shape.gradient),
                   uses * batch.turns(), uses * sending});
  }
  if (shape.zero == 3) {
    for (auto& c : gathers(table, batch.rounds(), shape.working, [](const auto& e) { return e.training_leases; })) out.push_back(std::move(c));
  } else if (!alone) {
    const auto type = shape.zero == 0 ? shape.gradient : shape.working;
    for (const auto& e : table.entries()) out.push_back({"all_gather", type, e.layout.padded * base::size_of(type), e.times, e.times});
  }
  return out;
}

std::vector<Traffic> step_traffic(const ModelConfig& model, const StateShape& shape, Reduction reduction, int data_rank) {
  return added_up(step_calls(model, shape, reduction, data_rank), shape.batch.data_ranks);
}

std::vector<Traffic> validation_traffic(const ModelConfig& model, const StateShape& shape, std::int64_t sequences) {
  const auto d = shape.batch.data_ranks;
  if (shape.zero != 3 || d == 1) return {};
  const auto rounds = (sequences / shape.batch.micro_batch + d - 1) / d;
  return added_up(gathers(UnitTable(model, d), rounds, shape.working, [](const auto& e) { return e.evaluation_leases; }), d);
}

}  // namespace trainyard::plan
