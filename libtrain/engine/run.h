// A run: from a configuration to a trained model: start, steps, checkpoints, metrics, stop.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/engine/signals.h"
#include "libtrain/engine/size_table.h"
#include "libtrain/engine/world.h"

#include <functional>
#include <memory>
#include <string>

namespace trainyard::engine {

// What the caller shows; called on rank 0 only.
struct RunListener {
  std::function<void(const StepMetrics& metrics, std::int64_t steps)> on_step;
  std::function<void(const std::string& line)> on_note;
};

struct RunResult {
  base::ExitCode code = base::ExitCode::done;
  std::int64_t step = 0;
  double loss = 0;
  std::int64_t steps_done = 0;              // by this start
  std::string checkpoint;                   // newest that was read or published, empty without one
  std::string resume;                       // what --resume must name to go on from here; empty: auto finds it
  SizeTable memory_report, traffic_report;  // report.txt in the output folder holds them with all bytes
  std::string step_profile = {};            // tables for people, of this rank (config.profile_step)
  std::shared_ptr<const base::Error> trace_error = {};  // why there is no trace of a run that is whole without it
};

// Collective over the world. Throws base::Error on every rank alike for what can be foreseen (configuration, data,
// checkpoint, memory limit, no space, not finite). requeue: stopped on request (signal, --stop-after) with a checkpoint
// written, or nothing done because the run has come as far as --stop-after already. Such errors are comm::AgreedErrors;
// whatever else one rank meets goes to World::fail, and is thrown where there is none.
RunResult run(const RunConfig& config, World& world, const SignalWatcher& signals, const RunListener& listener,
              int ranks_on_node);

// --dry-run: checks what a start would check up to the payloads of the checkpoint that it would take, and that the
// machine has the memory of its ranks (EnvironmentError); writes nothing. The text says what would be done.
std::string dry_run(const RunConfig& config, World& world, base::Sizes sizes, int ranks_on_node);

}  // namespace trainyard::engine
