// The trace of a run: its recorder, the clocks of its ranks, and its file at the end.
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

// Every rank has one, where config.trace is there (RunConfig); it outlives whatever is traced. All of it is called by
// the thread that computes.
class RunTrace {
 public:
  // Records from now on, as far as --trace-steps says. Collective, as what follows is but for begin_step().
  RunTrace(const RunContext& run, tensor::Exec& communication, std::int64_t completed_steps);
  void begin_step(std::int64_t step);
  // Nothing is recorded any more; rank 0 writes what it gets from all ranks in parts, whole or not at all. An
  // AgreedError where it cannot.
  void write();

 private:
  using Take = std::function<void(std::string_view shard)>;
  // What ranks 1, 2, ... have, `bytes` each, to rank 0 alone, which takes it.
  void to_rank_zero(const std::string& mine, const std::vector<std::int64_t>& bytes, const Take& take);
  void write_whole(const std::string& head, const std::string& mine, const std::vector<std::int64_t>& bytes);
  nlohmann::ordered_json about() const;
  void say(std::int64_t spans, std::int64_t left_out) const;

  const RunContext& run_;
  tensor::Exec& communication_;
  TraceSteps steps_;
  base::TraceRecorder recorder_;
  std::vector<comm::ClockOffset> clocks_;  // at the beginning
  std::int64_t first_step_, last_step_;    // begun while it lived
};

}  // namespace trainyard::engine
