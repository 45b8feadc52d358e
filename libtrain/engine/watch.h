// watch_world: the watchdog over the communicators of a world.
#pragma once

#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/world.h"

#include <functional>
#include <memory>
#include <string>

namespace trainyard::engine {

// Every rank starts one and tells the others where it listens; null for a world of one. Calls that already use `exchange` go on it. Collective.
std::unique_ptr<comm::Watchdog> watch_world(World& world, tensor::Exec& exchange, double timeout_seconds, std::function<void(const std::string& sentence)> on_hang);

}  // namespace trainyard::engine
