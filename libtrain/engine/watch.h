// The watchdog over the ranks of a world: over their lives, over the calls of a start, and over those of steps.
#pragma once

#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/world.h"

#include <functional>
#include <memory>
#include <string>

namespace trainyard::engine {

// Every rank starts one and tells the others where it listens; null for a world of one. From here on a rank that ends
// without a word ends the job, and so does one that stays silent while others wait for it in a call of World::control:
// World::on_hang is told, or `otherwise` where there is none. Collective, on `exec`.
std::unique_ptr<comm::Watchdog> watch_peers(
    World& world, tensor::Exec& exec, double timeout_seconds,
    std::function<void(const std::string& sentence, comm::Decided where)> otherwise);

// From here on the calls of all groups. Of a start: a rank that answers may work alone, on a plan or a checkpoint, and
// let others wait for as long as that takes; a job ends where one stays silent, or all wait for one another. Of steps:
// also where a call is not completed in time. The world keeps its communicators for as long as the watchdog lives.
// Nothing to do for null.
enum class Calls { of_a_start, of_steps };
void watch_calls(comm::Watchdog* watchdog, const World& world, Calls calls);

}  // namespace trainyard::engine
