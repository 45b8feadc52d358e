// A run, from a configuration to a trained model: start, steps, checkpoints, metrics, stop.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/engine/signals.h"
#include "libtrain/engine/size_table.h"
#include "libtrain/engine/world.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace trainyard::engine {

// Callbacks for what the caller shows. Called on rank 0 only.
struct RunListener {
  std::function<void(const StepMetrics& metrics, std::int64_t steps)> on_step;
  std::function<void(const std::string& line)> on_note;
  std::function<void()> on_begin = {};  // all checks of the start are over; the first step follows
};

struct RunResult {
  base::ExitCode code = base::ExitCode::done;
  std::int64_t step = 0;
  std::optional<double> loss = {};          // of the last step that this start has done; none if it has done none
  std::int64_t steps_done = 0;              // by this start
  std::string checkpoint;                   // newest that was read or published; empty: none
  std::string resume;                       // value of --resume that continues from here; empty: auto finds it
  SizeTable memory_report, traffic_report;  // report.txt in the output folder has them with exact bytes
  std::string step_profile = {};            // tables as text, of this rank (config.profile_step)
  double save_seconds = 0;  // from the snapshot to the published checkpoint, of the newest save; 0: none by this start
  std::shared_ptr<const base::Error> trace_error = {};  // why there is no trace; the run is whole without it
};

// Runs a training. Collective over the world. Throws base::Error on every rank alike for what can be foreseen
// (configuration, data, checkpoint, memory limit, no space, not finite). Such errors are comm::AgreedErrors. Any other
// error that one rank meets goes to World::fail, and is thrown if there is no World::fail.
// The code `requeue` means: stopped on request (signal, --stop-after) with a checkpoint written. A run that has reached
// --stop-after already does nothing, and ends with `done`. `ranks_on_node` is the number of ranks on this machine, at
// least 1. UsageError if the world lacks the groups of the layout in `config` (require_layout).
RunResult run(const RunConfig& config, World& world, const SignalWatcher& signals, const RunListener& listener,
              int ranks_on_node);

// --dry-run: checks what a start would check, except the payloads of the checkpoint that it would take. Also checks
// that the machine has the memory of its ranks (EnvironmentError). Writes nothing. The text says what a start would do.
std::string dry_run(const RunConfig& config, World& world, base::Sizes sizes, int ranks_on_node);

}  // namespace trainyard::engine
