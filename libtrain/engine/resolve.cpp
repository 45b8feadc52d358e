// From the settings of each rank to one setup.
#include "libtrain/engine/resolve.h"

#include "libtrain/base/cores.h"
#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/comm/core_share.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/auto_offload.h"
#include "libtrain/engine/auto_plan.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/start_json.h"
#include "libtrain/engine/trace_file.h"
#include "libtrain/plan/recompute_choice.h"
#include "libtrain/plan/spec/file_layout.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

namespace trainyard::engine {

namespace {

// A plan's file that read_plan() has not taken into the settings would train something else than it says.
void require_plan_read(const RunConfig& c) {
  if (!c.plan.empty() && c.plan != auto_plan && c.from_plan.ranks == 0 && !c.from_plan.model)
    throw base::UsageError(fmt::format("the plan {} was not read into the settings", c.plan),
                           "call read_plan() before run() or dry_run(), as train does");
}

// Lanes that the user does not give come from the run's own checkpoints.
void take_lanes_of_run(RunConfig& config, World& world, tensor::Exec& exec) {
  if ((config.lanes > 0 && !config.from_plan.decides_lanes) || config.from_checkpoint.model) return;
  take_lanes(config, value_of_rank_zero(world, exec, [&] { return lanes_of_run(config); }));
}

// Before a folder is made for the run. Of a run that goes on, the checkpoint knows how many samples were seen
// (choose_start).
void require_new_run_fits(const RunSetup& setup) {
  const auto& c = setup.config;
  std::error_code error;
  if (resumes_named(c) || std::filesystem::exists(checkpoints_folder(c.output), error)) return;
  require_counters(setup.plan.model, c, 0, 0);
  require_epochs(setup.sets, c, setup.plan.sequence, 0, 0);
}

}  // namespace

void require_startable(const RunConfig& config, int ranks_on_node) {
  require_plan_read(config);
  if (ranks_on_node < 1)
    throw base::UsageError(fmt::format("{} ranks on this machine: at least this one is here", ranks_on_node),
                           "ranks_on_node is the number of ranks on this machine: 1 for engine::solo_world()");
}

RunSetup resolve(const RunConfig& asked, World& world, StartFor what, int ranks_on_node,
                 const std::function<void(const std::string&)>& note) {
  auto config = asked;
  require_same(shared_settings(config), world, *world.communication);
  const auto place = agree_on_device(config, world, *world.communication);
  if (place.device.kind != base::DeviceKind::cuda) require_same_instructions(config.dtype, world, *world.communication);
  else if (what == StartFor::steps) move_to_gpu(config, world, place);
  auto& exec = *world.communication;
  take_lanes_of_run(config, world, exec);
  const int fair_threads = comm::threads_of_rank(*world.control, exec);
  const auto made = [&](const RunConfig& c) {
    return make_setup(c, world.size, base::team_threads(c.threads, fair_threads));
  };
  std::optional<RunSetup> unlimited;  // on rank 0, for what is auto
  const auto make_unlimited = [&] {
    require_output_beside_data(config);
    auto without_limit = config;
    without_limit.memory_limit.clear();
    unlimited = made(without_limit);
  };
  std::optional<std::int64_t> memory;
  const auto open = open_in(config);
  const bool decides_layout = config.plan == auto_plan || config.recompute_auto;
  // From here on it is a value like any other, so that copies of the settings have it.
  config.recompute_auto = false;
  if (open.recompute) config.recompute = plan::undecided_recomputation(config);
  if (decides_layout || config.offload_auto) memory = memory_of_every_rank(world, exec, place, ranks_on_node);
  auto choices = config.from_plan.choice;  // one line each
  if (decides_layout) {
    const auto layout = value_of_rank_zero(world, exec, [&] {
      make_unlimited();
      return auto_layout(*unlimited, open, config.memory_limit, memory);
    });
    config.zero = layout.zero, config.recompute = layout.recompute;
    if (world.rank == 0 && note) note(layout.text);
    choices += (choices.empty() ? "" : "\n") + layout.text;
  }
  if (config.offload_auto) {
    const auto [zero, offload, text] = value_of_rank_zero(world, exec, [&] {
      if (!unlimited) make_unlimited();
      auto plan = unlimited->plan;
      plan.zero = config.zero, plan.recompute = config.recompute;
      if (open.zero) plan.zero = stage_for_offload(plan, config.memory_limit, memory, config.host_memory);
      auto chosen = auto_offload(plan, config.memory_limit, memory, config.host_memory);
      const auto offload = plan::offload_of_text(chosen.first, base::setting_name("offload"));
      if (offload.uses(plan::Place::disk) && config.offload_dir.empty())
        throw base::UsageError(base::text("$offload auto takes {}, and there is no folder for it", chosen.first),
                               base::text("name folders on local disks: $offload-dir /local/nvme,/scratch/me"));
      if (plan.zero != config.zero) chosen.second += fmt::format("; with ZeRO {}", plan.zero);
      return std::tuple(plan.zero, chosen.first, chosen.second);
    });
    config.offload = plan::offload_of_text(offload, base::setting_name("offload")), config.offload_auto = false;
    config.zero = zero;
    choices += (choices.empty() ? "" : "\n") + text;
    if (world.rank == 0 && note) note(text);
  }
  report_threads(config.threads, fair_threads, world);
  RunSetup setup;
  const auto expected = value_of_rank_zero(world, exec, [&] {
    require_output_beside_data(config);
    require_trace_place(config);
    require_steps_to_trace(config, 0);
    setup = unlimited ? with_layout(*std::move(unlimited), config) : made(config);
    require_new_run_fits(setup);
    return setup.identity;
  });
  const auto files = on_rank_zero(world, exec, [&] { return file_settings(config); });
  on_every_rank(world, exec, [&] {
    if (world.rank == 0) return;
    setup = made(config);
    if (const auto other = differing_fields(expected, setup.identity); !other.empty())
      throw_other_content(fmt::format("{}", fmt::join(other, ", ")), config, files);
  });
  setup.step.device = place.device, setup.ranks_on_device = place.share.ranks;
  if (world.rank != 0) return setup;
  setup.choices = choices;
  warn_of_edited_plan(setup);
  if (const auto dropped = plan::dropped_text(setup.plan.model); !dropped.empty()) base::log_warning("{}", dropped);
  return setup;
}

}  // namespace trainyard::engine
