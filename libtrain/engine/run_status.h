// RunStatus: the state of a run as seen from outside. Nothing in its folder is touched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::engine {

// Why a rank has ended the run (exit/rank-00003.json). An exit code of 0 means that no rank has given a reason.
struct ExitReason {
  int exit_code = 0, rank = 0;
  std::string host, reason;
};

struct RunStatus {
  // absent: there is no such folder. waiting: nobody writes there, and nothing was written. running: its lock is held.
  // quiet: something was written, and nobody writes now. unknown: the system cannot say whether the lock is held.
  enum class Stage { absent, waiting, running, quiet, unknown };
  Stage stage = Stage::absent;
  std::string holder;  // "process 17 on n1, since ...": who writes, or was killed while writing
  ExitReason exit;     // reason of the lowest rank that has given one
  std::int64_t newest_step = -1;
  std::string newest, newest_time;  // the newest checkpoint, and when it was made (UTC); "" without one
};

// The reasons of all ranks that have given one, by rank.
std::vector<ExitReason> exit_reasons(const std::string& folder);

// Cheap enough to be called every second: it looks up a few names and reads no payload. InputError if the folder or its
// checkpoints cannot be looked at.
RunStatus status_of(const std::string& folder);

// The steps that a checkpoint's run is configured to do; 0 if its manifest does not record them.
std::int64_t steps_of(const std::string& checkpoint);

}  // namespace trainyard::engine
