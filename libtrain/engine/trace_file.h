// Trace files: the spans of all ranks as JSON in Chrome's trace event format, which Perfetto and chrome://tracing open
// and `inspect --timeline` reads.
#pragma once

#include "libtrain/base/owned.h"
#include "libtrain/base/trace.h"
#include "libtrain/comm/clock_offsets.h"
#include "libtrain/engine/config.h"
#include "libtrain/plan/plan.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace trainyard::engine {

inline constexpr const char* trace_format = "trainyard.trace/1";

// --trace-steps: "3:6" is steps 3 to 6, "3" one, "" all.
struct TraceSteps {
  std::int64_t first = 1, last = std::numeric_limits<std::int64_t>::max();
  bool has(std::int64_t step) const { return step >= first && step <= last; }
};
TraceSteps trace_steps(const std::string& text);  // UsageError

// On rank 0 at the start: throws what would be met at the end. UsageError for what is no place for a trace (a folder,
// another file, one that the run itself writes or reads, a checkpoint's folder), EnvironmentError where the folder is
// missing, but for that of the run, or cannot be written. Traces are replaced.
void require_trace_place(const RunConfig& config);
// UsageError where a run that goes on after `completed` steps does none that --trace-steps names.
void require_steps_to_trace(const RunConfig& config, std::int64_t completed);
base::Owned own_traces();

// Spans of a thread that are kept, so that files of long runs and many ranks stay readable.
std::size_t spans_of_a_thread(int ranks);

// A clock seen twice; between the two, and beyond, its offset goes along a line.
struct RankClock {
  comm::ClockOffset first, last;
  double on_rank_zero(double time) const;
};

// What stands before the spans: "otherData", which says what ran, and everything up to the list of events.
std::string trace_head(const nlohmann::ordered_json& other);
inline constexpr const char* trace_tail = "\n]}\n";
// "rank 3 (stage 1, data 0, tensor 1)"
std::string rank_name(const plan::Topology& topology, int rank);
// The events of one rank, one a line, ",\n" between: names of the rank and its threads, then their spans. Times are
// microseconds since `origin` by the clock of rank 0.
std::string trace_events(const std::vector<base::TraceRecorder::Thread>& threads, int rank, const std::string& name,
                         const RankClock& clock, double origin);

}  // namespace trainyard::engine
