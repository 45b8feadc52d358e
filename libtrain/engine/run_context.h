// What surrounds the steps of a run, agreed among the ranks before the first: configuration, setup, world, signals,
// listener, watchdog, and the hold on the run folder.
#pragma once

#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/run.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/signals.h"
#include "libtrain/engine/world.h"

#include <memory>
#include <string>

namespace trainyard::engine {

// Rank 0 holds the run folder as long as this lives; the others hold none. All learn the holder's name.
struct HeldOutput {
  std::unique_ptr<HeldFolder> folder;
  std::string writer;
};

// All of it outlives the run's steps.
struct RunContext {
  const RunConfig& config;
  const RunSetup& setup;
  World& world;
  const SignalWatcher& signals;
  const RunListener& listener;
  comm::Watchdog* watchdog;  // null for a world of one
  const HeldOutput& held;
};

}  // namespace trainyard::engine
