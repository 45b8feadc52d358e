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

// --trace-steps: "3:6" is steps 3 to 6, "3" is one step, "" is all steps.
struct TraceSteps {
  std::int64_t first = 1, last = std::numeric_limits<std::int64_t>::max();
  bool has(std::int64_t step) const { return step >= first && step <= last; }
};
TraceSteps trace_steps(const std::string& text);  // UsageError

// Throws at the start, on rank 0, what would fail at the end. UsageError for what is no place for a trace: a folder,
// another file, a file that the run itself writes or reads, a checkpoint's folder. EnvironmentError if the folder
// cannot be written or is missing; the run's own folder may be missing. Existing traces are replaced.
void require_trace_place(const RunConfig& config);
// A sentence if an earlier start has done all steps that --trace-steps names, so that none is left to trace; else "".
std::string traced_before(const RunConfig& config, std::int64_t completed);
// UsageError if a run that continues after `completed` steps does none of the steps that --trace-steps names.
void require_steps_to_trace(const RunConfig& config, std::int64_t completed);
base::Owned own_traces();

// How many spans of a thread are kept, so that files of long runs and many ranks stay readable.
std::size_t spans_of_a_thread(int ranks);

// A rank's clock compared with rank 0's at two times. Its offset is linear in time, between the two and beyond.
struct RankClock {
  comm::ClockOffset first, last;
  double on_rank_zero(double time) const;
};

// What comes before the spans: "otherData", which says what ran, and everything up to the list of events.
std::string trace_head(const nlohmann::ordered_json& other);
inline constexpr const char* trace_tail = "\n]}\n";
// "rank 3 (stage 1, data 0, tensor 1)"
std::string rank_name(const plan::Topology& topology, int rank);
// The events of one rank, one a line, ",\n" between: names of the rank and its threads, then the spans of the threads.
// Times are microseconds since `origin` by the clock of rank 0.
std::string trace_events(const std::vector<base::TraceRecorder::Thread>& threads, int rank, const std::string& name,
                         const RankClock& clock, double origin);

}  // namespace trainyard::engine
