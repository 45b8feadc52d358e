// Tables of the plan, of memory and of traffic.
#include "libtrain/engine/report.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/recorded_layout.h"
#include "libtrain/plan/attention_text.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/plan/cost/traffic.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/dispatch_rounds.h"
#include "libtrain/plan/stage_table.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <vector>

namespace trainyard::engine {

namespace {

// Traffic by group and operation, in the order of the plan. What does not leave the rank is left out.
using Sent = std::vector<plan::Traffic>;

void add(Sent& all, const std::vector<plan::Traffic>& more, std::int64_t times) {
  for (const auto& t : more) {
    if (t.bytes == 0) continue;
    auto same = std::find_if(all.begin(), all.end(),
                             [&](const auto& a) { return a.group == t.group && a.operation == t.operation; });
    if (same == all.end()) same = all.insert(all.end(), {t.group, t.operation, 0, 0});
    same->calls += times * t.calls, same->bytes += times * t.bytes;
  }
}

Sent announced_traffic(const plan::Plan& p, int rank, std::int64_t steps) {
  Sent out;
  for (const auto& ranks : p.traffic)
    if (ranks.has(rank)) add(out, ranks.operations, steps);
  return out;
}

// Follows a title: the rank and stage of its lines, if ranks differ.
std::string of_rank(const plan::Plan& p, int rank) {
  return p.pipeline == 1 ? std::string() : fmt::format(" of rank {}, stage {}", rank, p.stage_of(rank));
}

}  // namespace

SizeTable traffic_table(const plan::Plan& p, const World& world, std::span<const plan::BatchSizes::Steps> steps,
                        const Validations& validations, std::span<const plan::FurtherRounds> rounds) {
  auto announced = announced_traffic(p, world.rank, 0);
  for (const auto& [sequences, count] : steps)
    if (sequences == p.global_batch) add(announced, announced_traffic(p, world.rank, 1), count);
    else add(announced, plan::traffic_of_step(p, world.rank, sequences), count);
  add(announced, plan::all_validation_traffic(p, world.rank, validations.sequences), validations.count);
  add(announced, plan::added_up(plan::further_round_calls(p, rounds)), 1);
  Sent measured;
  for (const auto* group : world.groups())
    for (const auto& [operation, t] : group->ledger().totals())
      add(measured,
          {{plan::call_group_named(group->group(), "the ledger"), operation, 0,
            static_cast<std::int64_t>(t.sent_bytes)}},
          1);
  if (world.neighbours)
    for (const auto* ledger : world.neighbours->ledgers())
      for (const auto& [operation, t] : ledger->totals())
        add(measured, {{plan::Axis::pipe, operation, 0, static_cast<std::int64_t>(t.sent_bytes)}}, 1);
  auto rows = announced;
  add(rows, measured, 0);
  SizeTable out{"traffic sent" + of_rank(p, world.rank), "announced", {}};
  const auto bytes_of = [](const Sent& all, const plan::Traffic& row) -> std::int64_t {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const auto& a) { return a.group == row.group && a.operation == row.operation; });
    return same == all.end() ? 0 : same->bytes;
  };
  for (const auto& row : rows)
    out.rows.push_back({fmt::format("{} {}", plan::name_of(row.group), row.operation), bytes_of(announced, row),
                        bytes_of(measured, row), ""});
  return out;
}

SizeTable memory_report(const RankMemory& memory, const RunSetup& setup, int rank, const std::vector<RankRecord>& all,
                        std::int64_t of_others) {
  const auto measured = memory.measured();
  const auto& device = setup.step.device;
  auto taken = peak_resident_bytes() - of_others, there = measured.total();
  if (device.kind == base::DeviceKind::cuda) {
    const auto info = tensor::gpu_info(device.index);
    taken = (info.total_bytes - info.free_bytes) / setup.ranks_on_device;
    there -= measured.elsewhere(device.kind);
  }
  const auto& p = setup.plan;
  auto table = memory_table(memory.predicted(), measured, taken, there, p.memory.reserve);
  if (of_others > 0) table.rows.push_back({"read from other ranks", 0, of_others, "theirs"});
  if (p.pipeline == 1) return table;
  table.title += of_rank(p, rank);
  for (int stage = 0; stage < p.pipeline; ++stage) {
    double most = 0;
    for (std::size_t r = 0; r < all.size(); ++r)
      if (p.stage_of(static_cast<int>(r)) == stage) most = std::max(most, all[r].peak_bytes);
    table.rows.push_back({fmt::format("arenas of stage {}", stage), base::at(p.stage_memory, stage).categories.total(),
                          static_cast<std::int64_t>(most), ""});
  }
  return table;
}

SizeTable disk_table(const plan::Plan& plan, int rank, params::OffloadedStates& measured,
                     std::span<const plan::BatchSizes::Steps> steps) {
  const int stage = plan.stage_of(rank);
  base::StorageTotals predicted;
  for (const auto& [sequences, count] : steps) {
    const auto of_step = plan::disk_of_step(plan, stage, sequences, plan.topology.reduction_position(rank));
    predicted.read += count * of_step.read, predicted.written += count * of_step.written;
  }
  const auto moved = measured.in_steps();
  return {"disk" + of_rank(plan, rank),
          "predicted",
          {{"space", plan::disk_space(plan, stage), measured.storage()->space(), ""},
           {"read in steps", predicted.read, moved.read, ""},
           {"written in steps", predicted.written, moved.written, ""}}};
}

SizeTable link_table(const plan::Plan& plan, int rank, params::OffloadedStates& measured,
                     std::span<const plan::BatchSizes::Steps> steps) {
  plan::LinkBytes predicted;
  for (const auto& [sequences, count] : steps) {
    const auto of_step =
        plan::link_of_step(plan, plan.stage_of(rank), sequences, plan.topology.reduction_position(rank));
    predicted.down += count * of_step.down, predicted.up += count * of_step.up;
  }
  const auto copied = measured.link_in_steps();
  return {"link" + of_rank(plan, rank),
          "predicted",
          {{"to the host in steps", predicted.down, copied.down, ""},
           {"to the GPU in steps", predicted.up, copied.up, ""}}};
}

void write_report(const std::string& output, const std::vector<SizeTable>& tables, const std::string& reading) {
  const auto path = output + "/report.txt";
  try {
    if (base::file_size(path) > 0 && !base::read_file(path).starts_with("memory"))
      throw base::InputError(fmt::format("{} is not a report of a run: it is kept", path), "move it away");
    std::string text;
    for (const auto& table : tables)
      if (!table.title.empty()) text += table.text() + "\n";
    base::write_file(path, text + reading + "\n");
  } catch (const base::Error& e) {
    base::log_warning("there is no report of this run: {}", e.what());
  }
}

std::string checkpoint_layout(const checkpoint::RunState& state) {
  const auto layout = checkpoint::recorded_layout(state);
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  const auto ranks = layout.ranks.value_or(1), tensor = layout.tensor, stages = layout.pipeline;
  const bool shares = tensor > 1, in_stages = stages > 1;
  if ((shares || in_stages) && tensor >= 1 && stages >= 1 && ranks / tensor >= stages) {
    auto order = layout.pipeline_schedule;
    if (layout.virtual_stages > 1)
      order += fmt::format("{}{}", order.empty() ? "" : ", ", base::counted(layout.virtual_stages, "virtual stage"));
    add(fmt::format(
        "{}{}{}{}",
        in_stages ? fmt::format("{} stages{} x ", stages, order.empty() ? "" : fmt::format(" ({})", order)) : "",
        ranks / tensor / stages, shares ? fmt::format(" x {} tensor", tensor) : " data",
        shares && layout.sequence_parallel ? " with sequence parallelism" : ""));
  }
  if (layout.expert_parallel > 1) add(fmt::format("experts over {}", layout.expert_parallel));
  if (layout.zero && *layout.zero >= 0) add(fmt::format("ZeRO {}", *layout.zero));
  add(base::counted(state.model.lanes, "lane"));
  return out;
}

std::string parallel_layout_text(const plan::Plan& p) {
  const auto b = p.batch();
  return fmt::format(
      "{}{}, ZeRO {}, {}{} a rank, {}: {} of {} x {} tokens a step, {}{}{}", base::counted(p.topology.world(), "rank"),
      plan::sharing_text(p), p.zero, !p.recompute.any() ? "" : plan::recomputed_text(p.recompute) + ", ",
      base::counted(p.threads, "thread"), base::name_of(p.dtype),
      b.micros() == 1 ? "1 micro-batch" : base::count_text(b.micros()) + " micro-batches", p.micro_batch,
      p.source_sequence > 0 ? fmt::format("({} source + {} target)", p.source_sequence, p.sequence)
                            : fmt::format("{}", p.sequence),
      b.local_accumulation > 1 ? fmt::format("local accumulation {}, ", b.local_accumulation) : "",
      base::counted(b.accumulation_steps(), "accumulation step"), p.breadth_first(b) ? ", breadth first" : "");
}

std::string plan_text(const plan::Plan& p, const std::string& output, base::Sizes sizes) {
  std::string out =
      fmt::format("model {}: {} parameters{}, {} layers of {}, vocabulary {}\n", base::one_line(p.model.name),
                  base::count_text(p.parameters), plan::trained_text(p.model), plan::layers_text(p.model),
                  p.model.hidden, base::count_text(p.model.vocabulary));
  const auto lists = plan::most_attention_list_bytes(p);
  if (const auto attention = plan::attention_text(p.model, p.sequence); !attention.empty())
    out += fmt::format("attention: {}{}\n", attention,
                       lists > 0 ? fmt::format("; lists of {} a rank", base::size_text(lists, sizes)) : "");
  out += parallel_layout_text(p) + "\n";
  const auto memory = p.memory.categories;
  const auto row = [&](const std::string& name, std::int64_t bytes) {
    out += fmt::format("  {:<28}{:>16}\n", name, base::size_text(bytes, sizes));
  };
  const auto whose = p.pipeline > 1 ? plan::whose_memory(p) : "a rank's memory";
  out += fmt::format("\n  {}{:>{}}\n", whose, sizes == base::Sizes::exact ? "bytes" : "size", 44 - whose.size());
  for (const auto& entry : base::memory_categories)
    if (entry.shows(memory[entry.category])) row(entry.label, memory[entry.category]);
  row("in arenas", memory.total());
  row("reserve outside", p.memory.reserve);
  if (p.disk.space > 0) {
    row("on disk", p.disk.space);
    row("read from there a step", p.disk.read);
    row("written there a step", p.disk.written);
  }
  if (p.link != plan::LinkBytes{}) {
    row("copied to the host a step", p.link.down);
    row("copied to the GPU a step", p.link.up);
  }
  if (p.pipeline > 1) out += fmt::format("\n{}", plan::stages_text(p, sizes));
  const auto traffic = announced_traffic(p, 0, 1);
  if (!traffic.empty())
    out += fmt::format("\n  {:<28}{:>16}\n", "rank 0 sends a step", sizes == base::Sizes::exact ? "bytes" : "size");
  for (const auto& t : traffic)
    row(p.tensor * p.pipeline * p.expert_parallel > 1 ? fmt::format("{} {}", plan::name_of(t.group), t.operation)
                                                      : t.operation,
        t.bytes);
  return out + fmt::format("\nwould write {}/checkpoints, metrics.jsonl, report.txt\n", base::one_line(output));
}

}  // namespace trainyard::engine
