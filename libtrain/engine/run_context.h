// What surrounds the steps of a run: configuration, setup, world, signals, listener, watchdog, and the held run folder.
// The ranks have agreed on it before the first step.
#pragma once

#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/run_listener.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/signals.h"
#include "libtrain/engine/world.h"

namespace trainyard::engine {

// Everything in it outlives the run's steps.
struct RunContext {
  const RunConfig& config;
  const RunSetup& setup;
  World& world;
  const SignalWatcher& signals;
  const RunListener& listener;
  comm::Watchdog* watchdog;  // null for one rank
  const HeldOutput& held;
};

}  // namespace trainyard::engine
