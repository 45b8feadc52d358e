// Before the first step: the ranks agree on setup, run folder and start. If a checkpoint is damaged they take the one
// before. Also has the dry run.
#include "libtrain/engine/run.h"

#include "libtrain/base/log.h"
#include "libtrain/base/memo.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/comm/delayed.h"
#include "libtrain/comm/reason.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/identity_json.h"
#include "libtrain/engine/offload.h"
#include "libtrain/engine/report.h"
#include "libtrain/engine/resolve.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_context.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/run_loop.h"
#include "libtrain/engine/run_windows.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/shared_folder.h"
#include "libtrain/engine/start_json.h"
#include "libtrain/engine/trace_file.h"
#include "libtrain/engine/unread_settings.h"
#include "libtrain/engine/watch.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/plan/spec/conditions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>
#include <vector>

namespace trainyard::engine {

namespace {

// A sentence about memory that the ranks of this machine will need and it does not have, else "". A GPU reports itself
// what it does not have, but not what its host does not have.
std::string shortage_of(const RunSetup& setup, int ranks_on_node) {
  const auto& p = setup.plan;
  const auto of = [&](const plan::MemoryBytes& memory) {
    return p.device == base::DeviceKind::cuda ? memory.on_host : memory.arenas() + memory.reserve;
  };
  auto each = of(p.memory);
  if (ranks_on_node == p.topology.world()) {  // otherwise the stages of this machine are not known
    each = 0;
    for (const auto& stage : p.stage_memory) each += of(stage) / p.pipeline;
  }
  return machine_shortage(each, ranks_on_node);
}

std::string start_text(const Start& start, const RunSetup& setup) {
  const auto steps = setup.config.steps;
  if (start.path.empty()) return "would begin anew\n";
  if (start.weights_only) return fmt::format("would begin anew with the weights of {}\n", start.path);
  if (start.step >= steps)
    return fmt::format("would do nothing: {} is of step {} of {}\n", start.path, start.step, steps);
  return fmt::format("would go on after step {} of {}, from {}\n", start.step, steps, start.path);
}

// The text about what a run will have read at its end. It counts from `start`, because a resume may have changed the
// batch.
std::string planned_reading(const RunSetup& setup, const Start& start) {
  const auto batch = setup.plan.batch();
  const plan::BatchSizes sizes({batch.global_batch, batch.ramp}, start.step, start.samples_seen);
  return reading_text(setup, setup.config.steps, sizes.samples_after(setup.config.steps));
}

std::string ramp_line(const RunSetup& setup, const Start& start) {
  const auto text = plan::ramp_text(setup.plan, start.step, start.samples_seen);
  return text.empty() ? "" : text + "\n";
}

// What the learning rates come to that the user gave in percent or samples: "--warmup-steps 3% is 30". Empty without
// any.
std::string amounts_text(const RunSetup& setup) {
  const auto& c = setup.config;
  const auto& rate = setup.step.learning_rate;
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const base::Amount& given, const std::string& is) {
    if (given.unit != base::Amount::Unit::own)
      parts.push_back(fmt::format("{} {} is {}", base::setting_name(name), base::text_of(given), is));
  };
  add("start-learning-rate", c.start_learning_rate, fmt::format("{:.4g}", rate.start));
  add("final-learning-rate", c.final_learning_rate, fmt::format("{:.4g}", rate.final));
  add("warmup-steps", c.warmup_steps, base::counted(rate.warmup_steps, "step"));
  add("decay-steps", c.decay_steps, base::counted(rate.decay_steps, "step"));
  return parts.empty() ? "" : fmt::format("{}\n", fmt::join(parts, ", "));
}

// What each parameter group sets, and how many parameters it matches.
std::vector<std::string> group_texts(const RunSetup& setup) {
  std::vector<std::string> texts;
  if (setup.step.parameters.groups.empty()) return texts;
  for (const auto& matched : matched_parameters(setup.step.parameters, setup.plan.model))
    texts.push_back(base::text("$group {}", base::one_line(text_of(matched))));
  return texts;
}

void warn_at_start(const Start& start, const RunSetup& setup) {
  if (start.path.empty() && plan::has_adapter(setup.plan.model))
    base::log_warning("{}", base::text("adapters stand beside random weights, because no $init-from names others"));
  for (const auto& each : setup.sets) {
    if (const auto set = data::set_around(each.folder); !set.empty())
      base::log_warning(
          "{} is a part of the shard set {}: only its own shards are read, without checksums and without "
          "a validation split; $data {} has all",
          each.folder, set, set);
    const auto text = left_out_text(each, reading_of(setup));
    if (!text.empty()) base::log_warning("{}{}", setup.sets.size() > 1 ? each.folder + ": " : "", text);
  }
  if (const auto idle = plan::idle_text(setup.plan.batch()); !idle.empty()) base::log_warning("{}", idle);
}

// A sentence if the settings of a resume give its next step another rate than the checkpoint's own settings, else "".
std::string other_rate_text(const Start& start, const RunSetup& setup) {
  if (start.path.empty() || start.weights_only) return {};
  const auto before = learning_rate_of(checkpoint::read_state(start.path).identity);
  if (!before) return {};                                 // from an older version
  const auto updates = start.step - start.skipped_steps;  // a skipped step does not advance the schedule
  const double planned = before->at(updates), now = setup.step.learning_rate.at(updates);
  if (planned == now || start.step >= setup.step.learning_rate.total_steps) return {};
  return fmt::format("the learning rate of step {} is {:.4g}; the settings of the checkpoint gave {:.4g}",
                     start.step + 1, now, planned);
}

std::string rate_line(const Start& start, const RunSetup& setup) {
  const auto text = other_rate_text(start, setup);
  return text.empty() ? "" : text + "\n";
}

HeldOutput agreed_lock(const RunConfig& config, World& world, tensor::Exec& exec) {
  HeldOutput held;
  held.writer = on_rank_zero(world, exec, [&] {
    held.folder = take_run_folder(config.output);
    comm::forget_reasons(config.output + "/exit");  // reasons of an earlier start
    return held.folder->lock().name();
  });
  require_shared_output(config.output, held, world, exec);
  return held;
}

// Checkpoints later than the start, which rank 0 has skipped by itself.
std::vector<std::string> passed_over(const RunConfig& config, const Start& start,
                                     const std::vector<std::string>& damaged) {
  std::vector<std::string> out;
  if (config.resume == "auto" && start.own)
    for (const auto& held : checkpoint::list(checkpoints_folder(config.output)))
      if (held.step > start.step && std::find(damaged.begin(), damaged.end(), held.path) == damaged.end())
        out.push_back(held.path);
  return out;
}

Start agreed_start(const RunSetup& setup, World& world, tensor::Exec& exec, const std::vector<std::string>& damaged) {
  const auto start = value_of_rank_zero(world, exec, [&] {
    auto chosen = choose_start(setup, damaged);
    chosen.damaged = passed_over(setup.config, chosen, damaged);
    return chosen;
  });
  require_damaged_for_all(start.damaged, world, exec);
  require_same_checkpoint(start.path, world, exec);
  return start;
}

// Runs the steps. Before it throws an error, it writes the reason for those who watch the run or start it again. It
// does so while the lock is held, so that nobody sees the run gone without a reason. Rank 0 writes errors of all ranks,
// or of the only rank. A rank that meets an error alone writes it itself (World::fail).
RunResult go_or_report_why(RunLoop& loop, const RunConfig& config, const World& world) {
  try {
    return loop.go();
  } catch (const std::exception& e) {
    const auto reported = base::error_text_of(e);
    if (world.rank == 0 && (world.size == 1 || dynamic_cast<const comm::AgreedError*>(&e) != nullptr))
      comm::write_reason(config.output + "/exit", 0, static_cast<int>(reported.code), reported.message);
    throw;
  }
}

}  // namespace

RunResult run(const RunConfig& asked, World& world, const SignalWatcher& signals, const RunListener& listener,
              int ranks_on_node) {
  require_startable(asked, ranks_on_node);
  const auto watchdog =
      watch_peers(world, *world.communication, asked.hang_timeout,
                  comm::end_job_on_hang(asked.output.empty() ? "" : asked.output + "/exit", world.rank));
  const auto note = [&](const std::string& line) {
    if (world.rank == 0 && listener.on_note) listener.on_note(line);
  };
  const auto setup = resolve(asked, world, StartFor::steps, ranks_on_node, note);
  const auto& config = setup.config;
  auto& exec = *world.communication;
  on_every_rank(world, exec, [&] { refuse_unread_flags(asked, setup.plan); });
  if (world.rank == 0) warn_of_unread_settings(asked, setup.plan);
  on_every_rank(world, exec, [&] { require_layout(world, setup.plan); });
  on_every_rank(world, exec, [&] {
    join_neighbours(world, setup.plan.virtual_stages, setup.step.device,
                    plan::sharing_stages(setup.plan.model, setup.plan.stages));
  });
  if (const auto shortage = shortage_of(setup, ranks_on_node); !shortage.empty() && world.rank == 0)
    base::log_warning("{}: the system may swap, or kill the run", shortage);
  if (config.collective_delay > 0)
    world.replace_groups([&](auto group) { return comm::delayed(std::move(group), config.collective_delay); });
  watch_calls(watchdog.get(), world, Calls::of_a_start);
  const auto held = agreed_lock(config, world, exec);
  std::vector<std::string> damaged;
  auto start = agreed_start(setup, world, exec, damaged);
  const auto done = traced_before(config, start.step);
  const auto trace = done.empty() ? config.trace : std::string();
  if (!done.empty()) note(done);
  on_every_rank(world, exec, [&] {
    if (!trace.empty()) require_steps_to_trace(config, start.step);
  });
  if (world.rank == 0)
    if (const auto other = other_rate_text(start, setup); !other.empty()) note(other);
  const RunContext context{setup, world, signals, listener, watchdog.get(), held, trace};
  std::optional<RunLoop> loop;
  const auto reached = [&] { return config.stop_after > 0 && start.step >= config.stop_after; };
  while (start.step < config.steps && !reached()) {
    if (!start.path.empty() && !start.weights_only && !config.init_from.empty())
      note(base::text("$init-from {} is for a new run: this one goes on from its own checkpoint", config.init_from));
    if (!start.path.empty())
      note(fmt::format("{} {}", start.weights_only ? "weights from" : "resuming from", start.path));
    if (!loop) {
      note(fmt::format("model {}: {} parameters{}, context {}", setup.plan.model.name,
                       base::count_text(plan::parameter_count(setup.plan.model)), plan::trained_text(setup.plan.model),
                       setup.plan.model.context));
      note(parallel_layout_text(setup.plan));
      if (const auto ramp = ramp_line(setup, start); !ramp.empty()) note(ramp.substr(0, ramp.size() - 1));
      note(planned_reading(setup, start));
      if (const auto amounts = amounts_text(setup); !amounts.empty()) note(amounts.substr(0, amounts.size() - 1));
      for (const auto& text : group_texts(setup)) note(text);
      if (config.validation_sequences > 0 && config.validate_every == 0)
        note(base::text("$validation-sequences has no effect without $validate-every"));
    }
    if (!loop && world.rank == 0) warn_at_start(start, setup);
    if (!loop) {
      on_every_rank(world, exec, [&] { loop.emplace(context); });
      if (world.rank == 0 && listener.on_begin) listener.on_begin();
    }
    try {
      return or_fail(world, [&] {
        loop->load(start);
        base::forget_memos();  // of the search and of the plan: they are in no arena
        return go_or_report_why(*loop, config, world);
      });
    } catch (const comm::AgreedError& e) {
      const bool next = loop->step() < 0 && config.resume == "auto" && !start.weights_only && !start.path.empty() &&
                        e.code() == base::ExitCode::input_refused;
      if (!next) throw;
      require_damaged_for_all({start.path}, world, exec);
      if (world.rank == 0) base::log_warning("checkpoint {} is skipped: {}", start.path, e.what());
      damaged.push_back(start.path);
      start = agreed_start(setup, world, exec, damaged);
    }
  }
  // Nothing is left to do. A user who names an abandoned checkpoint goes back to it all the same.
  if (!start.path.empty() && !start.weights_only)
    start.path = on_rank_zero(world, exec, [&] {
      return is_abandoned(config.output, start.path) ? settle(config.output, start.path, start.step) : start.path;
    });
  const auto no_trace = fmt::format("{}{}", trace.empty() ? "" : fmt::format("; no trace is written to {}", trace),
                                    config.profile_step ? "; no step is there to profile" : "");
  if (start.step < config.steps) {
    if (!no_trace.empty()) note(fmt::format("step {} is done already{}", start.step, no_trace));
    return {base::ExitCode::done,  // requeue would let a loop that starts again after 75 never end
            start.step,           {}, 0, start.path, config.resume == "auto" || start.newest ? "" : start.path, {}, {}};
  }
  std::error_code error;
  const auto of_run = std::filesystem::absolute(start.path, error).parent_path().parent_path();
  const bool elsewhere = !start.path.empty() && !std::filesystem::equivalent(of_run, config.output, error);
  note(fmt::format(
      "all {} steps are done already{}{}", config.steps, no_trace,
      elsewhere ? base::text("; nothing is written to {}: a higher $steps goes on from {}", config.output, start.path)
                : ""));
  return {base::ExitCode::done, start.step, {}, 0, start.path, {}, {}, {}};
}

std::string dry_run(const RunConfig& asked, World& world, base::Sizes sizes, int ranks_on_node) {
  require_startable(asked, ranks_on_node);
  auto& exec = *world.communication;
  const auto watchdog = watch_peers(world, exec, asked.hang_timeout, comm::end_job_on_hang({}, world.rank));
  std::string decided;
  const auto setup = [&] {
    try {
      return resolve(asked, world, StartFor::predictions, ranks_on_node,
                     [&](const std::string& line) { decided += line + "\n"; });
    } catch (...) {  // what was decided is a part of why it does not fit
      if (!decided.empty()) base::log_info("{}", decided.substr(0, decided.size() - 1));
      throw;
    }
  }();
  const auto& config = setup.config;
  on_every_rank(world, exec, [&] { refuse_unread_flags(asked, setup.plan); });
  if (world.rank == 0) warn_of_unread_settings(asked, setup.plan);
  on_every_rank(world, exec, [&] {
    const auto shortage = shortage_of(setup, ranks_on_node);
    if (!shortage.empty())
      throw base::EnvironmentError(
          shortage, base::text("{}a smaller $micro-batch, or $recompute full; or look from the "
                               "machine that the job runs on",
                               world.size == 1 ? base::text("more ranks on more machines with a higher $zero, ")
                                               : base::text("more ranks on more machines, a higher $zero, ")));
  });
  require_room(setup.plan, world, exec, setup.step.offload_folders, config.output);
  Start start;  // chosen on rank 0
  const auto path = on_rank_zero(world, exec, [&] {
    require_usable(config.output);
    start = choose_start(setup, {}, RunFolder::looked_at);
    return base::text_of_path(start.path);
  });
  require_same_checkpoint(base::path_of_text(path), world, exec);
  return on_rank_zero(world, exec, [&] {
    const auto traced = traced_before(config, start.step);
    if (traced.empty()) require_steps_to_trace(config, start.step);
    const RunWindows windows(setup);
    warn_at_start(start, setup);
    std::string groups;
    for (const auto& text : group_texts(setup)) groups += text + "\n";
    return decided + plan_text(setup.plan, config.output, sizes) + ramp_line(setup, start) +
           planned_reading(setup, start) + "\n" + amounts_text(setup) + groups + start_text(start, setup) +
           rate_line(start, setup);
  });
}

}  // namespace trainyard::engine
