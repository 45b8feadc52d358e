// Prints a plan.
#include "tools/partition-model/report.h"

#include <fmt/format.h>

namespace trainyard::tools {

namespace {

std::string row(const std::string& name, std::int64_t bytes) {
  return fmt::format("  {:<24}{:>20}{:>14.4f}\n", name, bytes, static_cast<double>(bytes) * 1e-9);
}

}  // namespace

std::string plan_table(const plan::Plan& p) {
  const int ranks = p.topology.world();
  const auto batch = p.batch();
  std::string out = fmt::format("model       {}: {} layers, {} hidden, {} heads, vocabulary {}\n", p.model.name, p.model.layers, p.model.hidden, p.model.heads, p.model.vocabulary);
  out += fmt::format("parameters  {}\n", p.parameters);
  out += fmt::format("cut         {} ranks, ZeRO {}, {} with {} gradients, {}\n", ranks, p.zero, base::name_of(p.dtype), base::name_of(p.gradient_dtype), p.device == base::DeviceKind::cuda ? "a GPU a rank" : fmt::format("{} threads a rank", p.threads));
  out += fmt::format("step        {} micro-batches of {} x {} tokens, fold {}, {} reductions, {:.4g} TFLOP (attention counted in full)\n", batch.micros(), p.micro_batch,
                     p.sequence, p.fold, batch.turns(), p.flops * 1e-12);
  out += fmt::format("\n  {:<24}{:>20}{:>14}\n", "each rank's memory", "bytes", "GB");
  for (std::size_t i = 0; i < plan::memory_categories.size(); ++i) out += row(plan::memory_categories[i], p.memory.categories[i]);
  out += row("in arenas", p.memory.arenas()) + row("reserve outside", p.memory.reserve);
  if (p.memory.on_host > 0) out += row("on the host, not here", -p.memory.on_host);
  out += row("total", p.memory.total());
  if (p.device_memory > 0) out += row("device memory", p.device_memory);
  out += fmt::format("  model states by the textbook ({} ranks, no padding): {:.6g} GB\n", ranks,
                     plan::model_state_bytes(p.parameters, ranks, p.zero, p.dtype, p.gradient_dtype) * 1e-9);
  out += fmt::format("\n  {:<12}{:<8}{:<26}{:>8}{:>20}{:>14}\n", "sent a step", "group", "operation", "calls", "bytes", "GB");
  for (const auto& t : p.traffic)
    for (const auto& o : t.operations)
      out += fmt::format("  {:<12}{:<8}{:<26}{:>8}{:>20}{:>14.4f}\n", t.first_rank == t.last_rank ? fmt::format("rank {}", t.first_rank) : fmt::format("{}-{}", t.first_rank, t.last_rank),
                         o.group, o.operation, o.calls, o.bytes, static_cast<double>(o.bytes) * 1e-9);
  return out;
}

}  // namespace trainyard::tools
