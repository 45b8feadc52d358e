// Watching a run while it goes on.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/engine/run_status.h"
#include "tools/common/terminal.h"
#include "tools/inspect/history.h"

#include <string>

namespace trainyard::inspect {

// What is known of a run at a moment.
struct Watched {
  std::string path;
  History history;
  engine::RunStatus state;
  std::int64_t steps = 0;       // that the run shall do; 0: not known yet
  std::int64_t went_back = -1;  // the step to which it was set back, until it is where it was before; -1: it was not
  std::int64_t set_backs = 0;   // how often that happened
};

// How it ended, if it did: a sentence and what the exit code of watching it is. A rank said why, with its exit code; or
// it ended without a word (peer_hung). Else, done: all steps are done and their checkpoint is there. requeue: it
// stopped before that, and goes on when it is started again.
struct Verdict {
  bool ended = false;
  base::ExitCode code = base::ExitCode::done;
  std::string sentence;
};
Verdict verdict_on(const Watched& run);

// The picture for a window, at `now` (seconds since 1970): lines narrower than the window, not more than it has rows.
std::string picture_of(const Watched& run, tools::Window window, tools::Glyphs glyphs, double now);
// The newest step in a line; "" without any.
std::string line_of(const Watched& run);

struct FollowOptions {
  double interval = 2;      // seconds between looks
  bool past_stops = false;  // a run that stopped before its last step is waited for
};

// Draws until the run has ended, on a terminal in place; elsewhere one line for each look that found new steps, and
// what else happens on stderr. A folder that is not there yet, and one without metrics, is waited for. InputError for
// what is no run; EnvironmentError when the folder goes away.
base::ExitCode follow(const std::string& path, const FollowOptions& options);

}  // namespace trainyard::inspect
