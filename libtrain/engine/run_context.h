// What surrounds the steps of a run: setup, world, signals, listener, watchdog, the held run folder, and the file of
// the trace. The ranks have agreed on it before the first step.
#pragma once

#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/run_listener.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/signals.h"
#include "libtrain/engine/world.h"

#include <string>

namespace trainyard::engine {

// Everything in it outlives the run's steps.
struct RunContext {
  const RunSetup& setup;
  World& world;
  const SignalWatcher& signals;
  const RunListener& listener;
  comm::Watchdog* watchdog;  // null for one rank
  const HeldOutput& held;
  const std::string& trace;  // empty: no step is traced
};

}  // namespace trainyard::engine
