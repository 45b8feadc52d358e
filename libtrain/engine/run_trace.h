// The trace of a run: its recorder, the clocks of its ranks, and the file at the end.
#pragma once

#include "libtrain/base/trace.h"
#include "libtrain/comm/clock_offsets.h"
#include "libtrain/engine/run_context.h"
#include "libtrain/engine/trace_file.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::engine {

// Every rank has one if config.trace is set (RunConfig). It outlives whatever is traced. The compute thread makes all
// calls.
class RunTrace {
 public:
  // Records from now on, within --trace-steps. The constructor and write() are collective, begin_step() is not.
  RunTrace(const RunContext& run, tensor::Exec& communication, std::int64_t completed_steps);
  void begin_step(std::int64_t step);
  // Ends the recording. Rank 0 receives the spans of all ranks in parts and writes the file, whole or not at all.
  // AgreedError if it cannot.
  void write();

 private:
  using Take = std::function<void(std::string_view text)>;
  // Sends the texts of ranks 1, 2, ..., `bytes` each, to rank 0 alone, which passes them to `take`.
  void to_rank_zero(const std::string& mine, const std::vector<std::int64_t>& bytes, const Take& take);
  void write_whole(const std::string& head, const std::string& mine, const std::vector<std::int64_t>& bytes);
  nlohmann::ordered_json about() const;
  void report(std::int64_t spans, std::int64_t left_out) const;

  const RunContext& run_;
  tensor::Exec& communication_;
  TraceSteps steps_;
  base::TraceRecorder recorder_;
  std::vector<comm::ClockOffset> clocks_;  // offsets at the beginning
  std::int64_t first_step_, last_step_;    // steps begun while it lived
};

}  // namespace trainyard::engine
