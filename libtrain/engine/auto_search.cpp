// One search on rank 0, whose choices all ranks take.
#include "libtrain/engine/auto_search.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/cores.h"
#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/comm/core_share.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/auto_plan.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/setup.h"
#include "libtrain/plan/layout_text.h"
#include "libtrain/plan/measured_machine.h"
#include "libtrain/plan/search_answers.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainyard::engine {

namespace {

plan::SearchSpace space_of(std::vector<base::Field>& fields, const RunConfig& config) {
  plan::SearchSpace space;
  const auto searched = searched_settings(fields, config);
  for (const auto& setting : plan::search_settings())
    space.*setting.free = std::find(searched.begin(), searched.end(), setting.name) != searched.end();
  space.recompute |= config.recompute_auto;
  space.offload = config.offload_auto;
  return space;
}

// The machine of this start. A published node may have more devices than this one has ranks.
plan::Machine machine_of_start(const RunConfig& config, const plan::Plan& plan, int ranks_on_node) {
  auto machine = plan::machine_at(config.machine);
  if (machine.device != plan.device)
    throw base::UsageError(
        base::text("$machine {} has {}, and these ranks compute on {}", base::one_line(config.machine),
                   machine.device == base::DeviceKind::cuda ? "GPUs" : "no GPUs",
                   plan.device == base::DeviceKind::cuda ? "GPUs" : "the CPU"),
        base::text(
            "mpirun -n {} profile-comm --blocks auto measures this machine, with $model {} $sequence {} $threads "
            "{} and a vocabulary of {}",
            plan.topology.world(), base::one_line(config.model), plan.sequence, plan.threads, plan.model.vocabulary));
  if (!machine.measured) machine.devices_per_node = ranks_on_node;
  return machine;
}

std::int64_t limit_of_search(const RunConfig& config, std::optional<std::int64_t> memory) {
  const auto asked =
      config.memory_limit.empty() ? 0 : base::parse_bytes(config.memory_limit, base::setting_name("memory-limit"));
  if (!memory) return asked;
  return asked > 0 ? std::min(asked, *memory) : *memory;
}

}  // namespace

std::string search_layout(std::vector<base::Field>& fields, RunConfig& config, World& world, int ranks_on_node) {
  auto& exec = *world.communication;
  on_every_rank(world, exec, [&] {
    if (!config.machine.empty() && config.plan != auto_plan)
      throw base::UsageError(
          base::text("$machine is for a search of layouts, and no $plan auto asks for one"),
          base::text("$plan auto $machine {}, or leave $machine out", base::one_line(config.machine)));
  });
  if (config.machine.empty()) return {};
  auto copy = config;
  copy.plan.clear(), copy.memory_limit.clear();
  const auto place = agree_on_device(copy, world, exec);
  const auto memory = memory_of_every_rank(world, exec, place, ranks_on_node);
  const int fair_threads = comm::threads_of_rank(*world.control, exec);
  std::optional<plan::Plan> found_plan;  // on rank 0
  using Chosen = std::vector<std::pair<std::string, std::string>>;
  const auto [chosen, text] = value_of_rank_zero(world, exec, [&]() -> std::pair<Chosen, std::string> {
    if (copy.lanes == 0 && !copy.from_checkpoint.model) take_lanes(copy, lanes_of_run(copy));
    if (copy.recompute_auto) copy.recompute_auto = false, copy.recompute = {};
    copy.offload_auto = false;
    const auto plan = plan_to_search(copy, world.size, base::team_threads(copy.threads, fair_threads));
    const auto host =
        config.host_memory.empty() ? 0 : base::parse_bytes(config.host_memory, base::setting_name("host-memory"));
    const plan::SearchOf of{.plan = plan,
                            .space = space_of(fields, config),
                            .limits = {.device_bytes = limit_of_search(config, memory), .host_bytes = host, .top = 1},
                            .machine = machine_of_start(config, plan, ranks_on_node)};
    const auto result = plan::search(of);
    if (result.best.empty()) {
      auto none = plan::why_none(of, result);
      none.why = base::text("$plan auto: {}", none.why);
      none.refuse(of.space.offload ? base::text("more ranks, or a higher $memory-limit")
                                   : base::text("$offload auto, more ranks, or a higher $memory-limit"));
    }
    const auto& best = result.best.front();
    Chosen settings;
    plan::ParallelLayout layout = best.plan;
    auto values = plan::fields_of(layout);
    for (const auto& setting : plan::search_settings())
      if (of.space.*setting.free)
        settings.emplace_back(setting.name, base::field_named(values, setting.name, "a layout").get());
    found_plan = best.plan;
    plan::predict(*found_plan);
    const auto interval = plan::step_interval(*found_plan, of.machine);
    found_plan->step = plan::predicted_step(interval, of.machine);
    const auto name = plan::layout_text(best.plan), otherwise = plan::measured_otherwise(best.plan, of.machine);
    return {std::move(settings),
            base::text("$plan auto: {} on {}, {} a step by {}, {} a rank, the fastest of {} layouts",
                       name.empty() ? "no sharding and no recomputation" : name, base::counted(world.size, "rank"),
                       plan::step_seconds_text(best.time.seconds), of.machine.name, base::size_text(best.bytes),
                       base::count_text(result.counts.layouts)) +
                (otherwise.empty() ? "" : "; " + otherwise)};
  });
  for (const auto& [name, value] : chosen) {
    auto& field = base::field_named(fields, name, "a layout");
    field.set(value, base::text("$plan auto: {}", name));
    field.source = base::from_plan;
  }
  config.plan.clear(), config.machine.clear();
  config.from_plan.open = {.zero = false, .recompute = false};
  config.from_plan.as_read = found_plan, config.from_plan.choice = text;
  return text;
}

}  // namespace trainyard::engine
