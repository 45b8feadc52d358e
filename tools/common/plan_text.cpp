// Prints a plan.
#include "tools/common/plan_text.h"

#include "libtrain/base/text.h"
#include "libtrain/plan/attention_text.h"
#include "libtrain/plan/blocks/expert_rounds.h"
#include "libtrain/plan/dispatch_rounds.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/grid/zero_groups.h"
#include "libtrain/plan/stage_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace trainyard::tools {

namespace {

// Bytes sent again for recomputation, because layers run forward twice. They are counted for a rank of the stage that
// has a micro-batch in every accumulation step, among its tensor-parallel and expert-parallel ranks.
std::int64_t sent_again(const plan::Plan& p, int stage) {
  const auto sent = [&](const plan::Recomputation& recompute) {
    std::int64_t bytes = 0;
    const auto part = p.part_of_stage(stage);
    const auto micro = p.micro();
    const auto pass = plan::Pass::train;
    for (const auto& calls : {plan::tensor_calls(part, micro, pass, recompute, p.batch().micros_of(0)),
                              plan::expert_calls(part, micro, pass, recompute, p.batch().lockstep_micros())})
      for (const auto& t : plan::added_up(calls)) bytes += t.bytes;
    return bytes;
  };
  return sent(p.recompute) - sent({});
}

// Bytes that the first rank of a stage sends to its replicas in these groups, in the stage where it sends most.
std::int64_t sent_to_replicas(const plan::Plan& p,
                              const std::vector<plan::CallGroup>& groups = {
                                  plan::Axis::data, plan::Axis::expert_data, plan::Axis::zero_group,
                                  plan::Axis::reduction_outer, plan::Axis::reduction_inner}) {
  std::int64_t most = 0;
  for (int stage = 0; stage < p.pipeline; ++stage) {
    std::int64_t bytes = 0;
    for (const auto& t : plan::added_up(plan::all_step_calls(p, p.topology.rank_of({{plan::Axis::pipe, stage}}))))
      if (std::find(groups.begin(), groups.end(), t.group) != groups.end()) bytes += t.bytes;
    most = std::max(most, bytes);
  }
  return most;
}

// The largest local accumulation with which every replica has some micro-batches.
std::int64_t largest_local_accumulation(const plan::BatchPlan& batch) {
  auto local_accumulation = std::min(batch.micros() / batch.data_ranks, plan::ranges::local_accumulation.high);
  while (local_accumulation > 1 && batch.micros() % local_accumulation != 0) --local_accumulation;
  return local_accumulation;
}

// What a ZeRO stage costs if a rank has several micro-batches in a step, and how to reduce it.
std::string zero_text(const plan::Plan& p, base::Sizes sizes) {
  const auto batch = p.batch();
  if (batch.data_ranks == 1 || batch.accumulation_steps() == 1) return {};
  const auto size = [&](std::int64_t bytes) { return base::size_text(bytes, sizes); };
  const auto now = sent_to_replicas(p);
  auto first = p;
  first.zero = 1;
  std::string out;
  if (p.zero == 3)
    out +=
        fmt::format("  ZeRO 3 gathers weights for every micro-batch: {} to replicas{}; --zero 1 sends {}\n", size(now),
                    plan::ZeroGroups(p.topology).any()
                        ? fmt::format(" ({} inside zero groups)", size(sent_to_replicas(p, {plan::Axis::zero_group})))
                        : "",
                    size(sent_to_replicas(first)));
  else
    out +=
        fmt::format("  gradients are reduced in each of {} accumulation steps, at every ZeRO stage: {} to replicas\n",
                    batch.accumulation_steps(), size(now));
  if (const auto local_accumulation = largest_local_accumulation(batch);
      local_accumulation > p.local_accumulation && p.reduction == plan::Reduction::ordered) {
    auto accumulated = p;
    accumulated.local_accumulation = local_accumulation;
    out += fmt::format(
        "  --local-accumulation {} reduces less often, rounded differently: {} to replicas, and {} of memory a rank\n",
        local_accumulation, size(sent_to_replicas(accumulated)), size(plan::largest_memory(accumulated).total()));
  }
  return out;
}

constexpr std::size_t most_unequal_ranks = 16;  // in a table

// Ranks of stages with equal traffic; one line for all of them.
struct Senders {
  int first_rank, last_rank, first_stage, last_stage;
  const plan::RankTraffic* ranks;
};
std::vector<Senders> senders_of(const plan::Plan& p) {
  std::vector<Senders> out;
  for (const auto& t : p.traffic) {
    const int stage = p.stage_of(t.first_rank);
    if (!out.empty() && out.back().ranks->operations == t.operations && out.back().ranks->runs == 1 && t.runs == 1 &&
        out.back().last_rank + 1 == t.first_rank)
      out.back().last_rank = t.last_rank, out.back().last_stage = stage;
    else out.push_back({t.first_rank, t.last_rank, stage, stage, &t});
  }
  return out;
}

std::string from_to(int first, int last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

std::string ranks_text(const Senders& s) {
  const auto run = fmt::format("{}{}", s.first_rank == s.last_rank ? "rank " : "", from_to(s.first_rank, s.last_rank));
  const int apart = s.ranks->stride;
  if (s.ranks->runs == 2)
    return fmt::format("{}, {}", from_to(s.first_rank, s.last_rank),
                       from_to(s.first_rank + apart, s.last_rank + apart));
  return s.ranks->runs == 1 ? run : fmt::format("{} every {} to {}", run, s.ranks->stride, s.ranks->end() - 1);
}

// Where it is not the usual one: "lion, bf16 states, remainders of masters, sums of gradients in bf16, ".
std::string optimizer_text(const plan::Plan& p) {
  return fmt::format(
      "{}{}{}{}", p.optimizer == plan::default_optimizer ? "" : p.optimizer + ", ",
      base::is_narrow(p.moment_dtype) ? fmt::format("{} states, ", base::name_of(p.moment_dtype)) : "",
      p.master == plan::MasterFormat::remainder ? "remainders of masters, " : "",
      base::is_narrow(p.gradient_sums) ? fmt::format("sums of gradients in {}, ", base::name_of(p.gradient_sums)) : "");
}

}  // namespace

std::string plan_table(const plan::Plan& p, base::Sizes sizes) {
  const int ranks = p.topology.world();
  const auto batch = p.batch();
  const char* size = sizes == base::Sizes::exact ? "bytes" : "size";
  const auto plural = [](std::int64_t n) { return n == 1 ? "" : "s"; };
  std::string out =
      fmt::format("model       {}: {} layers, {} hidden, {} heads, vocabulary {}\n", base::one_line(p.model.name),
                  plan::layers_text(p.model), p.model.hidden, p.model.heads, base::count_text(p.model.vocabulary));
  out += fmt::format("parameters  {}{}{}\n", base::count_text(p.parameters), plan::trained_text(p.model),
                     p.active_parameters < p.parameters
                         ? fmt::format(", of which a token goes through {}", base::count_text(p.active_parameters))
                         : "");
  const auto attention = plan::attention_text(p.model, p.sequence);
  if (!attention.empty()) out += fmt::format("attention   {}\n", attention);
  if (const auto lists = plan::most_attention_list_bytes(p); lists > 0)
    out += fmt::format("            lists of {} a rank\n", base::size_text(lists, sizes));
  out += fmt::format(
      "layout      {}{}, ZeRO {}, {} with {} gradients, {}{}\n", base::counted(ranks, "rank"), plan::sharing_text(p),
      p.zero, base::name_of(p.dtype), base::name_of(p.gradient_dtype), optimizer_text(p),
      p.device == base::DeviceKind::cuda ? "a GPU a rank"
                                         : fmt::format("{} thread{} a rank", p.threads, plural(p.threads)));
  out += fmt::format("step        {} micro-batch{} of {} x {} tokens, {}{}{}, {} (attention counted {})\n",
                     batch.micros(), batch.micros() == 1 ? "" : "es", p.micro_batch, plan::lengths_text(p),
                     p.local_accumulation > 1 ? fmt::format("local accumulation {}, ", p.local_accumulation) : "",
                     base::counted(batch.accumulation_steps(), "accumulation step"),
                     p.breadth_first(batch) ? ", breadth first" : "", base::rate_text(p.flops, "FLOP"),
                     attention.empty() ? "in full" : "by what it computes");
  if (const auto ramp = plan::ramp_text(p); !ramp.empty()) out += "            " + ramp + "\n";
  const auto row = [&](const std::string& name, std::int64_t bytes) {
    out += fmt::format("  {:<24}{:>20}\n", name, base::size_text(bytes, sizes));
  };
  const auto whose = p.pipeline > 1 ? plan::whose_memory(p) : "each rank's memory";
  out += fmt::format("\n  {}{:>{}}\n", whose, size, 44 - whose.size());
  for (const auto& entry : base::memory_categories)
    if (const auto n = p.memory.categories[entry.category]; entry.shows(n)) row(entry.label, n);
  row("in arenas", p.memory.arenas());
  row("reserve outside", p.memory.reserve);
  if (p.memory.on_host > 0) row("in host memory instead", -p.memory.on_host);
  row("total", p.memory.total());
  if (p.device_memory > 0) row("device memory", p.device_memory);
  if (p.disk.space > 0) {
    row("on disk", p.disk.space);
    row("read from there a step", p.disk.read);
    row("written there a step", p.disk.written);
  }
  if (p.link != plan::LinkBytes{}) {
    row("copied to the host a step", p.link.down);
    row("copied to the GPU a step", p.link.up);
  }
  const auto of_experts = plan::expert_parameter_count(p.model), data = std::int64_t{p.topology.size(plan::Axis::data)};
  const auto states = [&](std::int64_t parameters, std::int64_t held_alike) {
    return plan::model_state_bytes(parameters, static_cast<int>(held_alike), p.zero, p.dtype, p.gradient_dtype,
                                   *p.states().optimizer);
  };
  const auto frozen = p.parameters - plan::trained_parameter_count(p.model);  // they have a working copy alone
  auto textbook = states(std::max<std::int64_t>(0, p.parameters - frozen - of_experts) / p.tensor / p.pipeline, data) +
                  static_cast<double>(frozen / p.tensor / p.pipeline * base::size_of(p.dtype)) /
                      static_cast<double>(p.zero == 3 ? data : 1) +
                  states(of_experts / p.tensor / p.pipeline / p.expert_parallel, data / p.expert_parallel);
  if (const plan::ZeroGroups groups(p.topology); groups.any())
    textbook += static_cast<double>(p.parameters / p.tensor / p.pipeline * base::size_of(p.dtype)) / groups.ranks();
  out += fmt::format("  model states by the textbook ({} rank{}; no padding, no buffers): {}\n", ranks, plural(ranks),
                     sizes == base::Sizes::exact ? fmt::format("{:.0f}", textbook) : base::rate_text(textbook, "B"));
  if (p.pipeline > 1) out += fmt::format("\n{}", plan::stages_text(p, sizes));
  bool sends = false;
  for (const auto& t : p.traffic)
    for (const auto& o : t.operations) sends |= o.bytes > 0;
  if (!sends) return out + "\n  one rank sends nothing\n";
  const auto stage_column = [&](const std::string& text) {
    return p.pipeline > 1 ? fmt::format("{:<7}", text) : std::string();
  };
  std::size_t group = 8, ranks_width = 12;
  const auto senders = senders_of(p);
  for (const auto& s : senders) ranks_width = std::max(ranks_width, ranks_text(s).size() + 1);
  for (const auto& t : p.traffic)
    for (const auto& o : t.operations) group = std::max(group, plan::name_of(o.group).size() + 1);
  out += fmt::format("\n  what each of these ranks sends a step\n  {}{:<{}}{:<{}}{:<26}{:>8}{:>20}\n",
                     stage_column("stage"), "ranks", ranks_width, "group", group, "operation", "calls", size);
  // Ranks that own different matrices send different amounts: these are as many lines as ranks.
  const bool shortened = senders.size() > most_unequal_ranks && plan::optimizer_kind(p.optimizer).collective ==
                                                                    plan::OptimizerKind::Collective::whole_matrices;
  for (const auto& t : std::span(senders).first(shortened ? most_unequal_ranks : senders.size()))
    for (const auto& o : t.ranks->operations)
      if (o.bytes > 0)
        out += fmt::format("  {}{:<{}}{:<{}}{:<26}{:>8}{:>20}\n", stage_column(from_to(t.first_stage, t.last_stage)),
                           ranks_text(t), ranks_width, plan::name_of(o.group), group, o.operation,
                           base::count_text(o.calls), base::size_text(o.bytes, sizes));
  if (shortened)
    out += fmt::format("  and {} more that differ in their matrices; --output FILE has them\n",
                       senders.size() - most_unequal_ranks);
  int stage = 0;  // stage that sends the most again
  for (int s = 1; s < p.pipeline; ++s)
    if (sent_again(p, s) > sent_again(p, stage)) stage = s;
  if (const auto again = sent_again(p, stage); again > 0)
    out += fmt::format("  {}{:<{}}{:>8}{:>20}\n", stage_column(fmt::format("{}", stage)),
                       fmt::format("of that, sent again to recompute ({})", p.expert_parallel == 1 ? "tensor"
                                                                            : p.tensor == 1        ? "expert"
                                                                                                   : "tensor, expert"),
                       group + 26 + ranks_width, "", base::size_text(again, sizes));
  return out + plan::rounds_text(p, sizes) + zero_text(p, sizes);
}

}  // namespace trainyard::tools
