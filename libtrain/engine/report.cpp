// Traffic and FLOPs by formula, and tables.
#include "libtrain/engine/report.h"

#include "libtrain/plan/accesses.h"

#include <algorithm>

namespace trainyard::engine {

double model_flops(const TrainerSetup& s) {
  const auto& m = s.model;
  const auto tokens = static_cast<double>(s.states.batch.global_batch * s.micro.sequence);
  const auto h = static_cast<double>(m.hidden), kv = static_cast<double>(m.kv_heads * m.head_dim()), f = static_cast<double>(m.ffn);
  const double layer = 2 * h * h + 2 * h * kv + (m.activation == plan::Activation::swiglu ? 3 : 2) * h * f;
  const double weights = static_cast<double>(m.layers) * layer + h * static_cast<double>(m.vocabulary);
  return tokens * (6 * weights + 12 * static_cast<double>(m.layers) * static_cast<double>(s.micro.sequence) * h);
}

std::map<std::string, std::int64_t> announced_traffic(const TrainerSetup& s, int rank) {
  const auto d = s.states.batch.data_ranks;
  const plan::UnitSet set(s.model, d);
  const std::int64_t others = d - 1, w = base::size_of(s.states.working);
  std::map<std::string, std::int64_t> out;
  if (d == 1) return out;
  const bool ordered = s.reduction == params::ReductionKind::ordered;
  const auto accesses = plan::training_accesses(s.model);
  for (std::int64_t turn = 0; turn < s.states.batch.turns(); ++turn) {
    const auto group = s.states.batch.group_of(rank, turn);
    const auto micros = group < 0 ? 1 : s.states.batch.end_micro(group) - s.states.batch.first_micro(group);
    for (const auto& a : accesses) {
      const auto piece = set.piece_of(a.use);
      if (a.kind == plan::Access::Kind::lease) {
        if (s.states.zero == 3) out["all_gather"] += micros * others * piece * w;
      } else if (ordered) {
        out["ordered_reduce_scatter"] += group >= 0 ? others * piece * 4 : 0;
      } else {
        out["reduce_scatter"] += others * piece * 4;
      }
    }
  }
  if (s.states.zero == 0) out["all_gather"] += others * set.piece_total() * 4;
  if (s.states.zero == 1 || s.states.zero == 2) out["all_gather"] += others * set.piece_total() * w;
  return out;
}

std::int64_t announced_validation_bytes(const TrainerSetup& s) {
  if (s.states.zero != 3) return 0;
  const plan::UnitSet set(s.model, s.states.batch.data_ranks);
  std::int64_t n = 0;
  for (const auto& use : plan::leases_of(plan::evaluation_accesses(s.model))) n += (set.pieces - 1) * set.piece_of(use) * base::size_of(s.states.working);
  return n;
}

std::string traffic_table(const TrainerSetup& s, const comm::Communicator& data, std::int64_t steps, std::int64_t validation_sequences) {
  auto announced = announced_traffic(s, data.rank());
  for (auto& [name, bytes] : announced) bytes *= steps;
  const auto d = s.states.batch.data_ranks;
  if (validation_sequences > 0 && s.states.zero == 3) {
    const auto micros = validation_sequences / s.micro.batch;
    announced["all_gather"] += (micros + d - 1) / d * announced_validation_bytes(s);
  }
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
  out += fmt::format("{:<24}{:>16} bytes, and a reserve of {} outside\n", "a rank in all", total(memory), outside_reserve_bytes(s.micro.threads));
  for (const auto& [name, bytes] : announced_traffic(s, 0)) out += fmt::format("rank 0 sends {:>16} bytes a step by {}\n", bytes, name);
  return out + fmt::format("would write {}/checkpoints, metrics.jsonl, report.txt\n", output);
}

}  // namespace trainyard::engine
