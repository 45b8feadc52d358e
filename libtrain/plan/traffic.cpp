// Calls and bytes of a step.
#include "libtrain/plan/traffic.h"

namespace trainyard::plan {

namespace {

SizedCalls calls_of(const UnitEntry& e, const char* operation, base::DType type, std::int64_t calls,
                    std::int64_t sending) {
  return {name_of(e.unit.group), e.pieces, operation, type, e.layout.padded * base::size_of(type), calls, sending};
}

// Stage 3: every lease of a micro-batch gathers its unit.
template <class Leases>
std::vector<SizedCalls> gathers(const UnitTable& table, std::int64_t micros, base::DType type, Leases leases) {
  std::vector<SizedCalls> out;
  for (const auto& e : table.entries())
    if (const auto n = micros * e.times * leases(e); n > 0) out.push_back(calls_of(e, "all_gather", type, n, n));
  return out;
}

std::vector<Traffic> added_up(const std::vector<SizedCalls>& calls) {
  std::vector<Traffic> out;
  for (const auto& c : calls) {
    if (out.empty() || out.back().operation != c.operation || out.back().group != c.group)
      out.push_back({c.group, c.operation, 0, 0});
    out.back().calls += c.calls;
    out.back().bytes += c.sending * (c.bytes / c.ranks * (c.ranks - 1));
  }
  return out;
}

}  // namespace

std::vector<SizedCalls> step_calls(const ModelConfig& model, const StateShape& shape, Reduction reduction,
                                   int data_rank) {
  const auto& batch = shape.batch;
  const UnitTable table(model, shape.topology);
  const auto sending = reduction == Reduction::fast ? batch.rounds() : batch.rounds_of(data_rank);
  std::vector<SizedCalls> out;
  for (const auto& e : table.entries()) {
    const auto uses = e.times * e.uses;
    const bool library = reduction == Reduction::fast && e.pieces > 1;
    out.push_back(calls_of(e, library ? "reduce_scatter" : "ordered_reduce_scatter", shape.gradient,
                           uses * batch.rounds(), uses * sending));
  }
  if (shape.zero == 3) {
    for (auto& c :
         gathers(table, batch.lockstep_micros(), shape.working, [](const auto& e) { return e.training_leases; }))
      out.push_back(std::move(c));
  } else {
    const auto type = shape.zero == 0 ? shape.gradient : shape.working;
    for (const auto& e : table.entries())
      if (e.pieces > 1) out.push_back(calls_of(e, "all_gather", type, e.times, e.times));
  }
  return out;
}

std::vector<Traffic> step_traffic(const ModelConfig& model, const StateShape& shape, Reduction reduction,
                                  int data_rank) {
  return added_up(step_calls(model, shape, reduction, data_rank));
}

std::vector<Traffic> validation_traffic(const ModelConfig& model, const StateShape& shape, std::int64_t sequences) {
  const auto d = shape.batch.data_ranks;
  if (shape.zero != 3 || d == 1) return {};
  const auto micros = (sequences / shape.batch.micro_batch + d - 1) / d;
  return added_up(gathers(UnitTable(model, shape.topology), micros, shape.working,
                          [](const auto& e) { return e.evaluation_leases; }));
}

}  // namespace trainyard::plan
