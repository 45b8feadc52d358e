// Prints a plan.
#include "tools/common/plan_text.h"

#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::tools {

namespace {

// By rank 0 among its tensor ranks, because layers run forward twice.
std::int64_t sent_again(const plan::Plan& p) {
  const auto sent = [&](plan::Recompute recompute) {
    std::int64_t bytes = 0;
    for (const auto& t :
         plan::added_up(plan::tensor_calls(p.model, p.micro(), plan::Pass::train, recompute, p.batch().micros_of(0))))
      bytes += t.bytes;
    return bytes;
  };
  return sent(p.recompute) - sent(plan::Recompute::none);
}

// As train's tables name it; JSON has the underscores.
std::string in_words(std::string category) {
  std::replace(category.begin(), category.end(), '_', ' ');
  return category;
}

}  // namespace

std::string plan_table(const plan::Plan& p, base::Sizes sizes) {
  const int ranks = p.topology.world();
  const auto batch = p.batch();
  const char* size = sizes == base::Sizes::exact ? "bytes" : "size";
  const auto plural = [](std::int64_t n) { return n == 1 ? "" : "s"; };
  std::string out =
      fmt::format("model       {}: {} layers, {} hidden, {} heads, vocabulary {}\n", base::one_line(p.model.name),
                  p.model.layers, p.model.hidden, p.model.heads, base::count_text(p.model.vocabulary));
  out += fmt::format("parameters  {}\n", base::count_text(p.parameters));
  out +=
      fmt::format("cut         {}{}, ZeRO {}, {} with {} gradients, {}\n", base::counted(ranks, "rank"),
                  plan::sharing_text(p), p.zero, base::name_of(p.dtype), base::name_of(p.gradient_dtype),
                  p.device == base::DeviceKind::cuda ? "a GPU a rank"
                                                     : fmt::format("{} thread{} a rank", p.threads, plural(p.threads)));
  out += fmt::format(
      "step        {} micro-batch{} of {} x {} tokens, fold {}, {} reduction{}, {} (attention counted in full)\n",
      batch.micros(), batch.micros() == 1 ? "" : "es", p.micro_batch, p.sequence, p.fold, batch.rounds(),
      plural(batch.rounds()), base::rate_text(p.flops, "FLOP"));
  const auto row = [&](const std::string& name, std::int64_t bytes) {
    out += fmt::format("  {:<24}{:>20}\n", name, base::size_text(bytes, sizes));
  };
  out += fmt::format("\n  {:<24}{:>20}\n", "each rank's memory", size);
  for (std::size_t i = 0; i < plan::memory_categories.size(); ++i)
    row(in_words(plan::memory_categories[i]), p.memory.categories[i]);
  row("in arenas", p.memory.arenas());
  row("reserve outside", p.memory.reserve);
  if (p.memory.on_host > 0) row("on the host, not here", -p.memory.on_host);
  row("total", p.memory.total());
  if (p.device_memory > 0) row("device memory", p.device_memory);
  const auto textbook =
      plan::model_state_bytes(p.parameters / p.tensor, ranks / p.tensor, p.zero, p.dtype, p.gradient_dtype);
  out += fmt::format("  model states by the textbook ({} rank{}; no padding, no buffers): {}\n", ranks, plural(ranks),
                     sizes == base::Sizes::exact ? fmt::format("{:.0f}", textbook) : base::rate_text(textbook, "B"));
  bool sends = false;
  for (const auto& t : p.traffic)
    for (const auto& o : t.operations) sends |= o.bytes > 0;
  if (!sends) return out + "\n  one rank sends nothing\n";
  out += fmt::format("\n  what each of these ranks sends a step\n  {:<12}{:<8}{:<26}{:>8}{:>20}\n", "ranks", "group",
                     "operation", "calls", size);
  for (const auto& t : p.traffic)
    for (const auto& o : t.operations)
      if (o.bytes > 0)
        out += fmt::format("  {:<12}{:<8}{:<26}{:>8}{:>20}\n",
                           t.first_rank == t.last_rank ? fmt::format("rank {}", t.first_rank)
                                                       : fmt::format("{}-{}", t.first_rank, t.last_rank),
                           o.group, o.operation, base::count_text(o.calls), base::size_text(o.bytes, sizes));
  if (const auto again = sent_again(p); again > 0)
    out += fmt::format("  {:<46}{:>8}{:>20}\n", "of that, sent again to recompute (tensor)", "",
                       base::size_text(again, sizes));
  return out;
}

}  // namespace trainyard::tools
