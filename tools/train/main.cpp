// train: trains a transformer on token shards, on one process or many ranks, with any ZeRO stage.
#include "libtrain/base/environment.h"
#include "libtrain/base/last_resort.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/auto_search.h"
#include "libtrain/engine/model_of_weights.h"
#include "libtrain/engine/run.h"
#include "libtrain/engine/shared_folder.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/spec/presets.h"
#include "tools/common/config_flags.h"
#include "tools/common/launcher.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/train/command.h"
#include "tools/train/evaluate.h"
#include "tools/train/launch.h"
#include "tools/train/step_line.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

namespace {

using namespace trainyard;

constexpr const char* examples =
    "  shard-data --input book.txt --split paragraphs --output data\n"
    "  train --model gpt2-nano --data data --output run --steps 20 --global-batch 8\n"
    "  train --evaluate run --evaluate-sequences 16\n"
    "  mpirun -n 2 train --model gpt2-nano --data data --output run2 --steps 40 --global-batch 16 --micro-batch 2 "
    "--zero 3 --save-every 20 --ema 0.9\n"
    "  mpirun -n 2 train --model gpt2-nano --data data --output run3 --steps 20 --global-batch 8 --micro-batch 2 "
    "--tensor-parallel 2 --sequence-parallel\n"
    "  mpirun -n 2 train --model gpt2-nano --data data --output run4 --steps 20 --global-batch 8 --pipeline-parallel 2 "
    "--trace trace.json\n"
    "  mpirun -n 2 train --model moe-nano --data data --output run5 --steps 20 --global-batch 8 --expert-parallel 2\n"
    "  train --init-from run --data data --output adapted --adapter lora:8 --adapter-on o,up,down --steps 10\n";

struct Switches {
  std::string config;
  bool dry_run = false, print_config = false, memory_report = false, help_model = false, bytes = false;
  base::Sizes sizes() const { return bytes ? base::Sizes::exact : base::Sizes::rounded; }
};

// What a start has done, reported in one line at its end.
class Totals {
 public:
  void add(const engine::StepMetrics& m) {
    if (steps_++ == 0) first_ = m.tokens_seen, first_step_ = m.tokens_per_second * m.step_seconds;
    last_ = m.tokens_seen;
    step_seconds_ += m.step_seconds;
    if (m.validation_loss) validation_seconds_ += m.validation_seconds;
  }
  std::string text(const std::string& checkpoint, double save_seconds) const {
    const auto tokens = last_ - first_ + std::llround(first_step_);
    return fmt::format(
        "{}, {} in {} ({}){}{}", base::counted(steps_, "step"), base::counted(tokens, "token"),
        base::duration_text(step_seconds_),
        base::count_rate_text(static_cast<double>(tokens) / std::max(step_seconds_, 1e-9), "tokens/s"),
        validation_seconds_ > 0 ? " and validations in " + base::duration_text(validation_seconds_) : "",
        checkpoint.empty()
            ? ""
            : "; checkpoint: " + base::one_line(checkpoint) +
                  (save_seconds > 0 ? fmt::format(" (saved in {})", base::duration_text(save_seconds)) : ""));
  }
  bool empty() const { return steps_ == 0; }

 private:
  std::int64_t steps_ = 0, first_ = 0, last_ = 0;
  double first_step_ = 0, step_seconds_ = 0, validation_seconds_ = 0;
};

base::ExitCode train(const engine::RunConfig& config, const Switches& switches, tools::Launch& launch,
                     const engine::SignalWatcher& signals,
                     const std::function<std::string(const std::string& resume)>& command) {
  auto& world = launch.world();
  if (switches.dry_run) {
    const auto text = engine::dry_run(config, world, switches.sizes(), launch.ranks_on_node());
    if (world.rank == 0) tools::print(text);
    return base::ExitCode::done;
  }
  std::optional<tools::Progress> progress;
  launch.on_every_rank([&] {
    const auto mode = tools::progress_mode(config.progress);
    if (world.rank == 0) progress.emplace("train", mode);
  });
  if (world.size > 1)
    world.fail = [&](const std::exception& error) {
      progress.reset();  // ends the progress line
      launch.fail(error);
    };
  tools::StepLine line;
  Totals totals;
  engine::RunListener listener;
  listener.on_note = [](const std::string& line) { base::log_info("{}", line); };
  // Not before: a launcher also sends TERM to the ranks whose peer has refused the command line.
  listener.on_begin = [&] {
    if (tools::kills_soon())
      signals.announce(fmt::format(
          "asked to stop: the ranks save. If mpirun was asked, it ends them within about two seconds, and what is "
          "saved by then is kept; kill -USR1 on mpirun waits for the save. To go on: {}",
          command({})));
  };
  listener.on_step = [&](const engine::StepMetrics& m, std::int64_t steps) {
    totals.add(m);
    const bool last = m.step == steps || m.validation_loss.has_value();
    progress->show(line.text(m, steps), last ? tools::Progress::Update::last : tools::Progress::Update::passing);
  };
  const auto result = engine::run(config, world, signals, listener, launch.ranks_on_node());
  // A stopped run still exits with its own code, because it can go on without its trace.
  const auto code =
      result.trace_error && result.code == base::ExitCode::done ? result.trace_error->code() : result.code;
  if (world.rank != 0) return code;
  progress.reset();
  if (!totals.empty()) base::log_info("{}", totals.text(result.checkpoint, result.save_seconds));
  if (!result.disk_rates.empty()) base::log_info("{}", result.disk_rates);
  auto product = result.checkpoint.empty() ? std::string() : result.checkpoint + "\n";
  if (switches.memory_report)
    product += result.memory_report.text(switches.sizes()) + "\n" + result.traffic_report.text(switches.sizes());
  for (const auto* table : {&result.disk_report, &result.link_report})
    if (switches.memory_report && !table->rows.empty())
      product += (product.ends_with("\n\n") ? "" : "\n") + table->text(switches.sizes());
  if (!result.step_profile.empty()) product += (switches.memory_report ? "\n" : "") + result.step_profile;
  try {
    tools::print(product);
  } catch (const base::EnvironmentError& e) {
    if (result.code == base::ExitCode::done) throw;
    tools::report("train", e);  // the run's own exit code matters more than a full disk
  }
  if (result.trace_error) {
    base::log_warning("the run is whole, but there is no trace of it");
    tools::report("train", *result.trace_error);
  }
  if (result.steps_done == 0 && result.step < config.steps && code == base::ExitCode::done)
    base::log_info("step {} of {} is done already, and --stop-after is {}: nothing was done; to go on: {}", result.step,
                   config.steps, config.stop_after, command(result.resume));
  if (code == base::ExitCode::requeue)
    base::log_info("stopped after step {} of {} with a checkpoint (exit 75); to go on: {}", result.step, config.steps,
                   command(result.resume));
  return code;
}

// Blocks signals as early as possible: a job manager's signal may come while libraries are still being initialized. It
// waits as later ones do. Sanitizers have to be initialized first.
#if defined(__ELF__) && !defined(TRAINYARD_SANITIZED)
__attribute__((section(".preinit_array"), used)) void (*const hold_signals_first)() = engine::hold_signals;
#endif

}  // namespace

int main(int argc, char** argv) {
  engine::hold_signals();
  engine::RunConfig config;
  auto fields = engine::fields_of(config);
  Switches switches;
  CLI::App app("", "train");
  tools::describe_program(
      app, "Trains a transformer on token shards; the same bits on any number of ranks.", examples,
      "shard-data, partition-model, inspect, generate; tools/guide, tools/train/examples (installed: share/trainyard)");
  tools::ConfigFlags flags(app, fields);
  app.footer(
      "Presets for --model: gpt2 llama-3.1-8b qwen3-0.6b gemma-2-2b mixtral-8x7b bert-base ...\n  (train --help-model "
      "lists all)\n\n" +
      app.get_footer());
  app.add_option("--config", switches.config, "TOML file with the same keys as the flags")->group("Settings");
  app.add_flag("--print-config", switches.print_config, "print settings and where each came from, and stop")
      ->group("Settings");
  app.add_flag("--dry-run", switches.dry_run,
               "check all except the tokens themselves, print predictions, write nothing")
      ->group("Settings");
  app.add_flag("--memory-report", switches.memory_report, "print memory and traffic, predicted and measured")
      ->group("Settings");
  app.add_flag("--help-model", switches.help_model, "print the keys of a model file, with an example")
      ->group("Settings");
  app.add_flag("--bytes", switches.bytes, "print sizes in bytes, not rounded")->group("Settings");
  tools::EvaluateFlags evaluation(app);
  tools::Lasting lasting;
  const auto show = [](const std::string& flag, const std::string& text) {
    engine::release_signals();
    return tools::show_instead(flag, text);
  };
  const auto body = [&] {
    if (switches.help_model)
      return static_cast<base::ExitCode>(show(
          "help-model",
          "More examples, and run files for --config: tools/train/examples in the sources,\nshare/trainyard/examples "
          "where it is installed.\n\n" +
              plan::model_help()));
    std::optional<const engine::SignalWatcher> signals;
    if (evaluation.asked()) engine::release_signals();
    else signals.emplace();
    tools::Launch launch;
    base::configure_log("train", launch.world().rank, base::LogLevel::info);
    try {
      launch.on_every_rank([&] {
        evaluation.check();
        if (!switches.config.empty()) base::read_toml(fields, switches.config);
        base::read_environment(fields);
        lasting = {config.stop_after > 0, config.resume != "auto"};
        flags.apply();
        for (const auto& f : fields)
          if (f.source == base::from_flag) config.from_flags.push_back(f.name);
        engine::read_plan(fields, config);
        engine::require_settings_of_optimizer(fields, config);
        launch.find_node_group(config);
        if (!evaluation.asked()) try {
            engine::read_model_of_weights(fields, config);
          } catch (const base::InputError& e) {
            if (launch.world().rank == 0) throw;
            engine::throw_not_seen(e);
          }
      });
      if (launch.world().rank == 0)
        for (const auto& line : flags.overridden()) base::log_info("{}", line);
      const auto word = [](bool on) { return on ? "on" : "off"; };
      engine::NamedSettings same{{"evaluate", word(evaluation.asked())},
                                 {"dry-run", word(switches.dry_run)},
                                 {"TRAINYARD_HOPPER", word(base::hopper_wanted())}};
      for (const auto* flag : tools::showing_flags) same.emplace_back(flag, word(false));
      for (const auto& f : fields)
        if (f.has(base::FieldTrait::divides_ranks)) same.emplace_back(f.name, f.get());
      same.emplace_back("print-config", word(switches.print_config));
      same.emplace_back("machine", config.machine);
      same.emplace_back("plan", config.plan == engine::auto_plan ? config.plan : "a file's, or none");
      launch.require_same(same);
      if (switches.print_config) {
        if (launch.world().rank == 0) tools::print(engine::print_config(fields, config));
        return base::ExitCode::done;
      }
      if (!evaluation.asked())
        if (const auto found = engine::search_layout(fields, config, launch.world(), launch.ranks_on_node());
            !found.empty() && launch.world().rank == 0)
          base::log_info("{}", found);
      launch.divide_world(config);
      if (evaluation.asked()) return evaluation.run(config, fields, launch);
      if (!switches.dry_run) launch.reasons_into(config.output);  // neither a dry run nor an evaluation writes anything
      return train(config, switches, launch, *signals, [&](const std::string& resume) {
        return tools::launcher_words(launch.world().size, tools::variables_in_effect(fields)) +
               tools::command_to_go_on({argv, argv + argc}, lasting, resume);
      });
    } catch (const comm::AgreedError& e) {
      return static_cast<base::ExitCode>(launch.world().rank == 0 ? tools::report("train", e)
                                                                  : static_cast<int>(e.code()));
    } catch (const std::exception& e) {
      return static_cast<base::ExitCode>(launch.fail(e));
    }
  };
  if (argc == 3 && std::string_view(argv[1]) == "--reference" && std::string_view(argv[2]) == "model-keys") {
    engine::release_signals();
    return tools::guarded(app, 1, argv, [] {
      tools::print(plan::model_reference());
      return base::ExitCode::done;
    });
  }
  const auto refuse = [](const base::UsageError& error) {
    engine::release_signals();
    return tools::refuse_command_line(error);
  };
  return tools::guarded(app, argc, argv, body, {.refuse = refuse, .show = show});
}
