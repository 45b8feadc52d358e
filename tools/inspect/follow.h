// Watching a run while it goes on.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/engine/run_status.h"
#include "tools/common/terminal.h"
#include "tools/inspect/history.h"

#include <string>

namespace trainyard::inspect {

// The state of a run at one moment.
struct Watched {
  std::string path;
  History history;
  engine::RunStatus state;
  std::int64_t steps = 0;       // steps of the whole run; 0: not known yet
  std::int64_t went_back = -1;  // the step to which it went back, until it has caught up; -1: it did not
  std::int64_t set_backs = 0;   // how often it went back
};

// Whether and how the run ended: a sentence, and the exit code of watching it. If a rank left a reason, its exit code;
// if the run ended without a reason, peer_hung. done: all steps are done and their checkpoint exists. requeue: the run
// stopped before, and goes on when it is started again.
struct Verdict {
  bool ended = false;
  base::ExitCode code = base::ExitCode::done;
  std::string sentence;
};
Verdict verdict_on(const Watched& run);

// The picture for a window, at `now` (seconds since 1970). Its lines are narrower than the window and fit into its
// rows.
std::string picture_of(const Watched& run, tools::Window window, tools::Glyphs glyphs, double now);
// A line about the newest step; "" if there is none.
std::string line_of(const Watched& run);

struct FollowOptions {
  double interval = 2;      // seconds between two looks
  bool past_stops = false;  // also waits for a run that stopped before its last step
};

// Shows the run until it ends. On a terminal it redraws in place. Elsewhere it prints one line for each look that found
// new steps, and other events on stderr. It waits for a folder that does not exist yet or has no metrics. InputError
// for a path that is no run; EnvironmentError when the folder disappears.
base::ExitCode follow(const std::string& path, const FollowOptions& options);

}  // namespace trainyard::inspect
