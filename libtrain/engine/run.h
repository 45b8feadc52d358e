// A run, from a configuration to a trained model: start, steps, checkpoints, metrics, stop.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/run_listener.h"
#include "libtrain/engine/run_result.h"
#include "libtrain/engine/signals.h"
#include "libtrain/engine/world.h"

#include <string>

namespace trainyard::engine {

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
