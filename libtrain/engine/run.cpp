// Before the first step: the ranks agree on setup, run folder and start. If a checkpoint is damaged they take the one
// before. Also has the dry run.
#include "libtrain/engine/run.h"

#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "libtrain/base/text.h"
#include "libtrain/comm/core_share.h"
#include "libtrain/comm/delayed.h"
#include "libtrain/comm/reason.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/auto_plan.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/report.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_context.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/run_loop.h"
#include "libtrain/engine/run_windows.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/trace_file.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/shared_folder.h"
#include "libtrain/engine/watch.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/cost/memory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>
#include <vector>

namespace trainyard::engine {

namespace {

// A sentence about memory that the ranks of this machine will need and it does not have, else "". A GPU reports that
// itself.
std::string shortage_of(const RunSetup& setup, int ranks_on_node) {
  const auto& p = setup.plan;
  if (p.device == base::DeviceKind::cuda) return {};
  auto each = p.memory.arenas() + p.memory.reserve;
  if (ranks_on_node == p.topology.world()) {  // otherwise the stages of this machine are not known
    each = 0;
    for (const auto& stage : p.stage_memory) each += (stage.arenas() + stage.reserve) / p.pipeline;
  }
  return machine_shortage(each, ranks_on_node);
}

std::string start_text(const Start& start, const RunConfig& config) {
  if (start.path.empty()) return "would begin anew\n";
  if (start.weights_only) return fmt::format("would begin anew with the weights of {}\n", start.path);
  if (start.step >= config.steps)
    return fmt::format("would do nothing: {} is of step {} of {}\n", start.path, start.step, config.steps);
  return fmt::format("would go on after step {} of {}, from {}\n", start.step, config.steps, start.path);
}

// The text about what a run will have read at its end. It counts from `start`, because a resume may have changed the
// batch.
std::string planned_reading(const RunConfig& config, const RunSetup& setup, const Start& start) {
  return reading_text(setup, config.steps, start.samples_seen + (config.steps - start.step) * config.global_batch);
}

void warn_of_what_is_left_out(const RunConfig& config, const RunSetup& setup) {
  if (const auto set = data::set_around(config.data); !set.empty())
    base::log_warning(
        "{} is a part of the shard set {}: only its own shards are read, without checksums and without "
        "a validation split; --data {} has all",
        config.data, set, set);
  const auto text = plan::left_out_text(data_use_of(setup), setup.plan.sequence);
  if (!text.empty()) base::log_warning("{}", text);
  if (const auto idle = plan::idle_text(setup.plan.batch()); !idle.empty()) base::log_warning("{}", idle);
}

// A sentence if the settings of a resume give its next step another rate than the checkpoint's own settings, else "".
std::string other_rate_text(const Start& start, const RunSetup& setup) {
  if (start.path.empty() || start.weights_only) return {};
  const auto was = checkpoint::read_state(start.path).identity;
  const auto names = {"learning_rate", "final_learning_rate", "warmup_steps", "decay_steps", "steps"};
  const auto is_number = [&](const char* name) { return was.contains(name) && was[name].is_number(); };
  if (!was.contains("schedule") || !was["schedule"].is_string() || !std::all_of(names.begin(), names.end(), is_number))
    return {};  // from an older version
  const LearningRate before{.schedule = was["schedule"],
                            .peak = was["learning_rate"],
                            .final = was["final_learning_rate"],
                            .warmup_steps = was["warmup_steps"],
                            .decay_steps = was["decay_steps"],
                            .total_steps = was["steps"],
                            .start = is_number("start_learning_rate") ? was["start_learning_rate"].get<double>() : 0};
  const double planned = before.at(start.step), now = setup.step.learning_rate.at(start.step);
  if (planned == now || start.step >= setup.step.learning_rate.total_steps) return {};
  return fmt::format("the learning rate of step {} is {:.4g}; the settings of the checkpoint gave {:.4g}",
                     start.step + 1, now, planned);
}

std::string rate_line(const Start& start, const RunSetup& setup) {
  const auto text = other_rate_text(start, setup);
  return text.empty() ? "" : text + "\n";
}

RunSetup agreed_setup(const RunConfig& config, World& world, tensor::Exec& exec) {
  const int fair_threads = comm::threads_of_rank(*world.control, exec);
  const int threads = base::team_threads(config.threads, fair_threads);
  report_threads(config.threads, fair_threads, world);
  // Rank 0 reads first and finds what is wrong. Only then do the other ranks read the same files.
  const auto expected = nlohmann::json::parse(on_rank_zero(world, exec, [&] {
    require_output_beside_data(config);
    require_trace_place(config);
    require_steps_to_trace(config, 0);
    return make_setup(config, world.size, threads).identity.dump();
  }));
  RunSetup setup;
  on_every_rank(world, exec, [&] {
    setup = make_setup(config, world.size, threads);
    if (const auto other = differing_fields(expected, setup.identity); !other.empty())
      throw base::InputError(fmt::format("this rank reads another {} than rank 0", fmt::join(other, ", ")),
                             "is the folder shared, and did a file change while the job started?");
  });
  if (world.rank == 0) warn_of_edited_plan(config);
  if (const auto dropped = plan::dropped_text(setup.plan.model); world.rank == 0 && !dropped.empty())
    base::log_warning("{}", dropped);
  return setup;
}

// Lanes that the user does not give come from the run's own checkpoints.
void take_lanes_of_run(RunConfig& config, World& world, tensor::Exec& exec) {
  if ((config.lanes > 0 && !config.lanes_of_plan) || config.checkpoint_model) return;
  const auto found = nlohmann::json::parse(on_rank_zero(world, exec, [&] {
    const auto of_run = lanes_of_run(config);
    return nlohmann::json{{"lanes", of_run.lanes}, {"checkpoint", base::text_of_path(of_run.checkpoint)}}.dump();
  }));
  take_lanes(config, {found["lanes"], base::path_of_text(found["checkpoint"].get<std::string>())});
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
nlohmann::json passed_over(const RunConfig& config, const Start& start, const std::vector<std::string>& damaged) {
  auto out = nlohmann::json::array();
  if (config.resume == "auto" && start.own)
    for (const auto& held : checkpoint::list(checkpoints_folder(config.output)))
      if (held.step > start.step && std::find(damaged.begin(), damaged.end(), held.path) == damaged.end())
        out.push_back(base::text_of_path(held.path));
  return out;
}

Start agreed_start(const RunConfig& config, const RunSetup& setup, World& world, tensor::Exec& exec,
                   const std::vector<std::string>& damaged) {
  const auto chosen = nlohmann::json::parse(on_rank_zero(world, exec, [&] {
    const auto s = choose_start(config, setup, world.size, damaged);
    return nlohmann::json{{"path", base::text_of_path(s.path)},
                          {"weights_only", s.weights_only},
                          {"step", s.step},
                          {"samples_seen", s.samples_seen},
                          {"tokens_seen", s.tokens_seen},
                          {"skipped_steps", s.skipped_steps},
                          {"own", s.own},
                          {"newest", s.newest},
                          {"passed_over", passed_over(config, s, damaged)}}
        .dump();
  }));
  const auto path = base::path_of_text(chosen["path"].get<std::string>());
  std::vector<std::string> passed;
  for (const auto& held : chosen["passed_over"]) passed.push_back(base::path_of_text(held.get<std::string>()));
  require_damaged_for_all(passed, world, exec);
  require_same_checkpoint(path, world, exec);
  return {.path = path,
          .weights_only = chosen["weights_only"],
          .step = chosen["step"],
          .samples_seen = chosen["samples_seen"],
          .tokens_seen = chosen["tokens_seen"],
          .skipped_steps = chosen["skipped_steps"],
          .own = chosen["own"],
          .newest = chosen["newest"]};
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

// A plan's file that read_plan() has not taken into the settings would train something else than it says.
void require_plan_read(const RunConfig& c) {
  if (!c.plan.empty() && c.plan != auto_plan && c.plan_ranks == 0 && !c.plan_model)
    throw base::UsageError(fmt::format("the plan {} was not read into the settings", c.plan),
                           "call read_plan() before run() or dry_run(), as train does");
}

void require_ranks_on_node(int ranks) {
  if (ranks < 1)
    throw base::UsageError(fmt::format("{} ranks on this machine: at least this one is here", ranks),
                           "ranks_on_node is the number of ranks on this machine: 1 for engine::solo_world()");
}

}  // namespace

RunResult run(const RunConfig& asked, World& world, const SignalWatcher& signals, const RunListener& listener,
              int ranks_on_node) {
  require_plan_read(asked);
  require_ranks_on_node(ranks_on_node);
  auto config = asked;
  const auto watchdog =
      watch_peers(world, *world.communication, config.hang_timeout,
                  comm::end_job_on_hang(config.output.empty() ? "" : config.output + "/exit", world.rank));
  require_same(shared_settings(config), world, *world.communication);
  const auto place = agree_on_device(config, world, *world.communication);
  const auto device = place.device;
  if (device.kind == base::DeviceKind::cuda) move_to_gpu(config, world, place);
  else require_same_instructions(config.dtype, world, *world.communication);
  auto& exec = *world.communication;
  take_lanes_of_run(config, world, exec);
  const auto decided = decide_layout(config, world, exec, place, ranks_on_node);
  if (!decided.empty() && world.rank == 0 && listener.on_note) listener.on_note(decided);
  auto setup = agreed_setup(config, world, exec);
  on_every_rank(world, exec, [&] { require_layout(world, setup.plan); });
  on_every_rank(world, exec, [&] { join_neighbours(world, setup.plan.virtual_stages, device); });
  setup.step.device = device, setup.ranks_on_device = place.share.ranks;
  if (const auto shortage = shortage_of(setup, ranks_on_node); !shortage.empty() && world.rank == 0)
    base::log_warning("{}: the system may swap, or kill the run", shortage);
  if (config.collective_delay > 0)
    world.replace_groups([&](auto group) { return comm::delayed(std::move(group), config.collective_delay); });
  watch_calls(watchdog.get(), world, Calls::of_a_start);
  const auto held = agreed_lock(config, world, exec);
  std::vector<std::string> damaged;
  auto start = agreed_start(config, setup, world, exec, damaged);
  const auto note = [&](const std::string& line) {
    if (world.rank == 0 && listener.on_note) listener.on_note(line);
  };
  if (const auto done = traced_before(config, start.step); !done.empty()) note(done), config.trace.clear();
  on_every_rank(world, exec, [&] { require_steps_to_trace(config, start.step); });
  if (world.rank == 0)
    if (const auto other = other_rate_text(start, setup); !other.empty()) note(other);
  const RunContext context{config, setup, world, signals, listener, watchdog.get(), held};
  std::optional<RunLoop> loop;
  const auto reached = [&] { return config.stop_after > 0 && start.step >= config.stop_after; };
  while (start.step < config.steps && !reached()) {
    if (!start.path.empty() && !start.weights_only && !config.init_from.empty())
      note(fmt::format("--init-from {} is for a new run: this one goes on from its own checkpoint", config.init_from));
    if (!start.path.empty())
      note(fmt::format("{} {}", start.weights_only ? "weights from" : "resuming from", start.path));
    if (!loop) {
      note(fmt::format("model {}: {} parameters, context {}", setup.plan.model.name,
                       base::count_text(plan::parameter_count(setup.plan.model)), setup.plan.model.context));
      note(parallel_layout_text(setup.plan)), note(planned_reading(config, setup, start));
      if (config.validation_sequences > 0 && config.validate_every == 0)
        note("--validation-sequences has no effect without --validate-every");
    }
    if (!loop && world.rank == 0) warn_of_what_is_left_out(config, setup);
    if (!loop) {
      on_every_rank(world, exec, [&] { loop.emplace(context); });
      if (world.rank == 0 && listener.on_begin) listener.on_begin();
    }
    try {
      return or_fail(world, [&] {
        loop->load(start);
        return go_or_report_why(*loop, config, world);
      });
    } catch (const comm::AgreedError& e) {
      const bool next = loop->step() < 0 && config.resume == "auto" && !start.weights_only && !start.path.empty() &&
                        e.code() == base::ExitCode::input_refused;
      if (!next) throw;
      require_damaged_for_all({start.path}, world, exec);
      if (world.rank == 0) base::log_warning("checkpoint {} is skipped: {}", start.path, e.what());
      damaged.push_back(start.path);
      start = agreed_start(config, setup, world, exec, damaged);
    }
  }
  // Nothing is left to do. A user who names an abandoned checkpoint goes back to it all the same.
  if (!start.path.empty() && !start.weights_only)
    start.path = on_rank_zero(world, exec, [&] {
      return is_abandoned(config.output, start.path) ? settle(config.output, start.path, start.step) : start.path;
    });
  const auto no_trace =
      fmt::format("{}{}", config.trace.empty() ? "" : fmt::format("; no trace is written to {}", config.trace),
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
      elsewhere ? fmt::format("; nothing is written to {}: a higher --steps goes on from {}", config.output, start.path)
                : ""));
  return {base::ExitCode::done, start.step, {}, 0, start.path, {}, {}, {}};
}

std::string dry_run(const RunConfig& asked, World& world, base::Sizes sizes, int ranks_on_node) {
  require_plan_read(asked);
  require_ranks_on_node(ranks_on_node);
  auto& exec = *world.communication;
  auto config = asked;
  const auto watchdog = watch_peers(world, exec, config.hang_timeout, comm::end_job_on_hang({}, world.rank));
  require_same(shared_settings(config), world, exec);
  const auto place = agree_on_device(config, world, exec);
  if (place.device.kind != base::DeviceKind::cuda) require_same_instructions(config.dtype, world, exec);
  take_lanes_of_run(config, world, exec);
  auto decided = decide_layout(config, world, exec, place, ranks_on_node);
  if (!decided.empty()) decided += "\n";
  const auto setup = agreed_setup(config, world, exec);
  on_every_rank(world, exec, [&] {
    const auto shortage = shortage_of(setup, ranks_on_node);
    if (!shortage.empty())
      throw base::EnvironmentError(shortage,
                                   fmt::format("{}a smaller --micro-batch, or --recompute full; or look from the "
                                               "machine that the job runs on",
                                               world.size == 1 ? "more ranks on more machines with a higher --zero, "
                                                               : "more ranks on more machines, a higher --zero, "));
  });
  Start start;  // chosen on rank 0
  const auto path = on_rank_zero(world, exec, [&] {
    require_usable(config.output);
    start = choose_start(config, setup, world.size, {}, RunFolder::looked_at);
    return base::text_of_path(start.path);
  });
  require_same_checkpoint(base::path_of_text(path), world, exec);
  return on_rank_zero(world, exec, [&] {
    const auto traced = traced_before(config, start.step);
    if (traced.empty()) require_steps_to_trace(config, start.step);
    const RunWindows windows(config, setup);
    warn_of_what_is_left_out(config, setup);
    return decided + plan_text(setup.plan, config.output, sizes) + planned_reading(config, setup, start) + "\n" +
           start_text(start, config) + rate_line(start, setup);
  });
}

}  // namespace trainyard::engine
