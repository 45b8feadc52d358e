// Reading a trace of train (engine/trace_file.h) back.
#pragma once

#include "libtrain/plan/schedule.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainyard::inspect {

struct TracedSpan {
  std::string kind, name, group;  // kind: as base/trace_kinds.h calls it
  double begin = 0, end = 0;      // seconds, by one clock
  std::int64_t place = 0;         // in the file: of actions that begin together, some take no time
  std::int64_t step = -1;         // of actions and saves
  plan::Action action{};          // of actions, but for the update, of which only the kind is known
  std::int64_t bytes = 0;         // of collectives
};
struct TracedThread {
  std::string name;
  std::vector<TracedSpan> spans;  // by their beginning, outer ones first
};
struct TracedRank {
  std::string name;
  std::map<std::int64_t, TracedThread> threads;
  const TracedThread* computing() const;  // null: none was traced
};

struct Trace {
  nlohmann::json about;  // "otherData", checked
  std::int64_t stages = 1, data = 1, tensor = 1, chunks = 1, micro_batches = 1;
  bool host_only = false;  // the device's work is not in it
  std::vector<TracedRank> ranks;
  std::int64_t spans = 0;
  std::vector<std::int64_t> full_steps() const;  // those that every rank has from beginning to end, ascending
};

// InputError with what is wrong: no such file, damaged or truncated JSON, a trace of another program or version,
// numbers that cannot be.
Trace read_trace(const std::string& file);

}  // namespace trainyard::inspect
