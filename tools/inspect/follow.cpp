// Polls a run.
#include "tools/inspect/follow.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/clock.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/log.h"
#include "libtrain/base/text.h"
#include "tools/common/live_screen.h"
#include "tools/common/program.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

namespace trainyard::inspect {

namespace fs = std::filesystem;
using Stage = engine::RunStatus::Stage;

namespace {

// The folder of a run to follow; a path that cannot be one is refused before waiting.
std::string run_folder_of(const std::string& given) {
  auto path = base::without_slashes(given);
  if (fs::path(path).filename() == "metrics.jsonl") path = base::parent_of(path);
  if (!base::exists(path)) {
    const auto parent = base::parent_of(path);
    if (!base::is_folder(parent))
      throw base::InputError(fmt::format("{} does not exist, nor does {}", path, parent), "check the path");
    return path;
  }
  if (!base::is_folder(path))
    throw base::InputError(fmt::format("--follow: {} is no run's folder", path), "give what train has as --output");
  for (const char* of_others : {"manifest.json", "index.json", "rank-00000.h5"})
    if (base::exists(path + "/" + of_others))
      throw base::InputError(fmt::format("--follow: {} holds {}: it is no run's folder", path, of_others),
                             "give what train has as --output");
  return path;
}

class Watch {
 public:
  Watch(const std::string& path, const FollowOptions& options) : options_(options), tail_(path + "/metrics.jsonl") {
    run_.path = path;
  }

  // Reads the run again. Returns whether there is something new.
  bool look() {
    const auto before = run_.state.newest_step;
    // Reads the run's state (who writes) before the lines. So if the run ends in between, all of its lines are seen.
    run_.state = engine::status_of(run_.path);
    if (run_.state.stage == Stage::absent && seen_)
      throw base::EnvironmentError(fmt::format("{} is gone: it was removed or renamed while it was watched", run_.path),
                                   "give its new name, or look whether its disk is still mounted");
    seen_ = run_.state.stage != Stage::absent;
    std::int64_t last = 0;
    const auto change = tail_.read(
        [&] {
          last = newest();
          const auto steps = run_.history.steps;
          run_.history = {};
          run_.history.steps = steps;
        },
        [&](const engine::MetricsLine& line) { run_.history.add(line); });
    if (change == engine::MetricsTail::Change::anew && newest() < last) {
      back_from_ = run_.went_back >= 0 ? std::max(back_from_, last) : last;
      run_.went_back = newest();
      ++run_.set_backs;
    } else if (newest() >= back_from_) {
      run_.went_back = -1;
    }
    if (run_.history.steps > 0) run_.steps = run_.history.steps;
    else if (run_.state.newest_step > before) run_.steps = engine::steps_of(run_.state.newest);
    return change != engine::MetricsTail::Change::none;
  }
  const Watched& run() const { return run_; }
  // The verdict if the run has ended and need not be waited for.
  std::optional<Verdict> verdict() const {
    auto v = verdict_on(run_);
    if (v.ended && !(options_.past_stops && v.code == base::ExitCode::requeue)) return v;
    return {};
  }

 private:
  std::int64_t newest() const { return run_.history.samples.empty() ? 0 : run_.history.samples.back().step; }

  FollowOptions options_;
  Watched run_;
  engine::MetricsTail tail_;
  std::int64_t back_from_ = 0;  // the step before the run went back
  bool seen_ = false;
};

std::string named(const std::string& path, const std::string& sentence) {
  return fmt::format("{}: {}", base::one_line(path), sentence);
}

base::ExitCode draw_in_place(Watch& watch, const FollowOptions& options) {
  std::optional<Verdict> verdict;
  {
    tools::LiveScreen screen;
    watch.look();
    while (true) {
      verdict = watch.verdict();
      if (!screen.show(picture_of(watch.run(), tools::terminal_window(), tools::glyphs_of_terminal(),
                                  static_cast<double>(std::time(nullptr)))))
        return base::ExitCode::done;
      if (verdict) break;
      screen.wait(options.interval);
      watch.look();
    }
  }
  base::log_info("{}", named(watch.run().path, verdict->sentence));
  return verdict->code;
}

// Messages about events that the lines of steps do not show.
class Notes {
 public:
  void report(const Watched& run) {
    const auto sentence = verdict_on(run).sentence;
    if (sentence != last_ && !sentence.empty()) base::log_info("{}", named(run.path, sentence));
    last_ = sentence;
    if (run.set_backs != set_backs_)
      base::log_info("{}", named(run.path, fmt::format("was set back to step {}", run.went_back)));
    set_backs_ = run.set_backs;
    if (!run.state.newest.empty() && run.state.newest != checkpoint_)
      base::log_info("{}",
                     named(run.path, fmt::format("checkpoint {} made at {}", run.state.newest, run.state.newest_time)));
    checkpoint_ = run.state.newest;
  }

 private:
  std::string last_, checkpoint_;
  std::int64_t set_backs_ = 0;
};

base::ExitCode print_lines(Watch& watch, const FollowOptions& options) {
  for (Notes notes;;) {
    const bool news = watch.look();
    if (const auto line = line_of(watch.run()); news && !line.empty() && !tools::print(line + "\n"))
      return base::ExitCode::done;  // the reader has gone
    notes.report(watch.run());
    if (const auto verdict = watch.verdict()) return verdict->code;
    base::real_clock().sleep(options.interval);
  }
}

}  // namespace

Verdict verdict_on(const Watched& run) {
  const auto done = run.history.samples.empty() ? 0 : run.history.samples.back().step;
  const auto where = run.steps > 0 ? fmt::format("step {} of {}", done, run.steps) : fmt::format("step {}", done);
  const auto& state = run.state;
  // The last lines are written before the last checkpoint.
  const bool all_done = run.steps > 0 && done >= run.steps, all_saved = all_done && state.newest_step >= run.steps;
  switch (state.stage) {
    case Stage::absent: return {false, {}, "this folder does not exist: waiting until a run makes it"};
    case Stage::waiting: return {false, {}, "no run has begun here yet: waiting for it"};
    case Stage::running:
      if (run.history.samples.empty()) return {false, {}, "the run has begun, no step is done yet"};
      return {false, {}, ""};
    case Stage::unknown:
      if (all_saved || state.exit.exit_code != 0) break;
      return {false, {}, ""};
    case Stage::quiet: break;
  }
  if (state.exit.exit_code != 0)
    return {true, static_cast<base::ExitCode>(state.exit.exit_code),
            fmt::format("ended at {} with exit code {}: rank {} on {} says: {}", where, state.exit.exit_code,
                        state.exit.rank, base::one_line(state.exit.host), base::one_line(state.exit.reason))};
  if (state.stage == Stage::quiet && !state.holder.empty())
    return {true, base::ExitCode::peer_hung,
            fmt::format("ended without a word at {}: {} was killed", where, base::one_line(state.holder))};
  if (all_saved) return {true, base::ExitCode::done, fmt::format("all {} steps are done", done)};
  return {true, base::ExitCode::requeue,
          fmt::format(
              "stopped at {}{}: nobody writes there; started again it {}", where,
              all_done ? ", whose checkpoint is not there" : "",
              state.newest.empty() ? "begins anew: there is no checkpoint yet" : "goes on from its newest checkpoint")};
}

base::ExitCode follow(const std::string& path, const FollowOptions& options) {
  Watch watch(run_folder_of(path), options);
  return tools::LiveScreen::possible() ? draw_in_place(watch, options) : print_lines(watch, options);
}

}  // namespace trainyard::inspect
