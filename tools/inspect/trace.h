// Reads a trace that train wrote (engine/trace_file.h).
#pragma once

#include "libtrain/plan/schedule/schedule.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainyard::inspect {

struct TracedSpan {
  std::string kind, name, group;  // kind: a name of base/trace_kinds.h
  double begin = 0, end = 0;      // seconds, all by one clock
  std::int64_t place = 0;         // order in the file, because several actions may begin at the same time
  std::int64_t step = -1;         // for actions and saves
  plan::Action action{};          // for actions; for the update only its kind is known
  std::int64_t bytes = 0;         // for collectives
};
struct TracedThread {
  std::string name;
  std::vector<TracedSpan> spans;  // by beginning, outer spans first
};
struct TracedRank {
  std::string name;
  std::map<std::int64_t, TracedThread> threads;
  const TracedThread* computing() const;  // the thread that computes; null: none was traced
};

struct Trace {
  nlohmann::json about;  // "otherData" of the file, checked
  std::int64_t stages = 1, data = 1, tensor = 1, chunks = 1, micro_batches = 1;
  bool host_only = false;  // the work of the device is not traced
  std::vector<TracedRank> ranks;
  std::int64_t spans = 0;
  std::vector<std::int64_t> full_steps() const;  // steps that every rank has from beginning to end, ascending
};

// InputError that says what is wrong: no such file, damaged or truncated JSON, a trace of another program or version,
// impossible numbers.
Trace read_trace(const std::string& file);

}  // namespace trainyard::inspect
