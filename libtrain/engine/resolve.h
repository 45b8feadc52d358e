// Resolve: the ranks of a start make their settings definite together: device, reduction lanes, layout, setup.
#pragma once

#include "libtrain/engine/config.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/world.h"

#include <functional>
#include <string>

namespace trainyard::engine {

// steps: the ranks will compute, so on a GPU the world gets communicators for its memory. predictions: they only look.
enum class StartFor { steps, predictions };

// Settings that a program may not give to run() or dry_run(). UsageError.
void require_startable(const RunConfig& config, int ranks_on_node);

// The setup of every rank. Collective. Rank 0 reads first and finds what is wrong; only then do the other ranks read
// the same files. Throws what make_setup throws, on all ranks alike; also for settings that differ between ranks, a
// rank without the device or the instruction set, a place that no trace may have, and files that ranks see differently.
// `note` gets, on rank 0, one sentence about what --plan auto decides.
RunSetup resolve(const RunConfig& asked, World& world, StartFor what, int ranks_on_node,
                 const std::function<void(const std::string&)>& note);

}  // namespace trainyard::engine
