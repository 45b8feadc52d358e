// RunStatus: how a run stands, seen from outside of it: nothing in its folder is touched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::engine {

// Why a rank has ended the run (exit/rank-00003.json); an exit code of 0: nobody has said anything.
struct ExitReason {
  int exit_code = 0, rank = 0;
  std::string host, reason;
};

struct RunStatus {
  // absent: there is no such folder. waiting: nobody writes there and nothing was written. running: its lock is held.
  // quiet: written in before, and nobody does now. unknown: the system cannot say whether the lock is held.
  enum class Stage { absent, waiting, running, quiet, unknown };
  Stage stage = Stage::absent;
  std::string holder;  // "process 17 on n1, since ...": who writes, or was killed when writing
  ExitReason exit;     // of the rank with the lowest number that has said one
  std::int64_t newest_step = -1;
  std::string newest, newest_time;  // the newest checkpoint and when it was made, in UTC; "" without
};

// Of every rank that has said one, by number.
std::vector<ExitReason> exit_reasons(const std::string& folder);

// Cheap enough to be asked every second: a few names are looked up, no payload is read. InputError where the folder or
// its checkpoints cannot be looked at.
RunStatus status_of(const std::string& folder);

// The steps that a checkpoint's run shall do; 0 where its manifest does not say so.
std::int64_t steps_of(const std::string& checkpoint);

}  // namespace trainyard::engine
