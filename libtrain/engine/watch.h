// The watchdog over the ranks of a world: first over their lives and agreements, then over all their calls.
#pragma once

#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/world.h"

#include <functional>
#include <memory>
#include <string>

namespace trainyard::engine {

// Every rank starts one and tells the others where it listens; null for a world of one. From here on a rank that ends
// without a word ends the job, and so does one that lets the others wait in a call of World::control: World::on_hang is
// told, or `otherwise` where there is none. Collective, on `exec`; before any other call, so that the start is watched.
std::unique_ptr<comm::Watchdog> watch_peers(
    World& world, tensor::Exec& exec, double timeout_seconds,
    std::function<void(const std::string& sentence, comm::Decided where)> otherwise);

// From here on a collective of any group that nobody completes does so too. The world keeps its communicators for as
// long as the watchdog lives. Nothing to do for null.
void watch_calls(comm::Watchdog* watchdog, const World& world);

}  // namespace trainyard::engine
