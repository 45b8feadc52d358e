// Tables of the plan and of traffic.
#include "libtrain/engine/report.h"

#include "libtrain/plan/memory.h"
#include "libtrain/plan/traffic.h"

#include <map>

namespace trainyard::engine {

namespace {

std::map<std::string, std::int64_t> announced_traffic(const TrainerSetup& s, int rank) {
  std::map<std::string, std::int64_t> out;
  if (s.states.batch.data_ranks == 1) return out;
  const auto reduction = s.reduction == params::ReductionKind::ordered ? plan::Reduction::ordered : plan::Reduction::fast;
  for (const auto& t : plan::step_traffic(s.model, s.states, reduction, rank)) out[t.operation] += t.bytes;
  return out;
}

}  // namespace

std::string traffic_table(const TrainerSetup& s, const comm::Communicator& data, std::int64_t steps, const Validations& validations) {
  auto announced = announced_traffic(s, data.rank());
  for (auto& [name, bytes] : announced) bytes *= steps;
  for (const auto& t : plan::validation_traffic(s.model, s.states, validations.sequences)) announced[t.operation] += validations.count * t.bytes;
  std::string out = fmt::format("{:<24}{:>16}{:>16}{:>12}\n", "traffic (bytes sent)", "announced", "measured", "difference");
  for (const auto& [name, t] : data.ledger().totals()) {
    if (t.sent_bytes == 0 && announced.count(name) == 0) continue;
    const auto want = announced[name];
    out += fmt::format("{:<24}{:>16}{:>16}{:>12}\n", fmt::format("{} {}", data.group(), name), want, t.sent_bytes, static_cast<std::int64_t>(t.sent_bytes) - want);
  }
  return out;
}

std::string plan_text(const TrainerSetup& s, const std::string& output) {
  const auto& b = s.states.batch;
  std::string out = fmt::format("model {}: {} parameters, {} layers of {}, vocabulary {}\n", s.model.name, plan::parameter_count(s.model), s.model.layers, s.model.hidden,
                                s.model.vocabulary);
  out += fmt::format("{} rank{}, ZeRO {}, {} threads a rank, {}: {} micro-batches of {} x {} tokens a step, fold {}, {} turn{}\n", b.data_ranks, b.data_ranks == 1 ? "" : "s",
                     s.states.zero, s.micro.threads, base::name_of(s.micro.dtype), b.micros(), s.micro.batch, s.micro.sequence, b.fold, b.turns(), b.turns() == 1 ? "" : "s");
  const auto memory = predicted_memory(s);
  for (int c = 0; c < tensor::category_count; ++c)
    out += fmt::format("{:<24}{:>16} bytes\n", tensor::name_of(static_cast<tensor::Category>(c)), memory[static_cast<std::size_t>(c)]);
  out += fmt::format("{:<24}{:>16} bytes, and a reserve of {} outside\n", "a rank in all", total(memory), plan::reserve_bytes(s.micro));
  for (const auto& [name, bytes] : announced_traffic(s, 0)) out += fmt::format("rank 0 sends {:>16} bytes a step by {}\n", bytes, name);
  return out + fmt::format("would write {}/checkpoints, metrics.jsonl, report.txt\n", output);
}

}  // namespace trainyard::engine
