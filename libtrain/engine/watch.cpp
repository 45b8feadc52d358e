// Starts the watchdogs of all ranks, and gives them ledgers.
#include "libtrain/engine/watch.h"

#include "libtrain/comm/agreement.h"

#include <vector>

namespace trainyard::engine {

std::unique_ptr<comm::Watchdog> watch_peers(World& world, tensor::Exec& exec, double timeout_seconds,
                                            std::function<void(const std::string&, comm::Decided)> otherwise) {
  if (world.size == 1) return nullptr;
  comm::WatchdogOptions o;
  o.rank = world.rank;
  o.size = world.size;
  o.timeout_seconds = timeout_seconds;
  o.on_hang = world.on_hang ? world.on_hang : std::move(otherwise);
  auto watchdog = std::make_unique<comm::Watchdog>(o, std::vector<std::pair<std::string, const comm::Ledger*>>{});
  watchdog->start(comm::texts_of_all(*world.control, exec, watchdog->address()));
  return watchdog;
}

void watch_calls(comm::Watchdog* watchdog, const World& world) {
  if (watchdog == nullptr) return;
  std::vector<std::pair<std::string, const comm::Ledger*>> ledgers;
  for (const auto* group : world.groups()) ledgers.emplace_back(group->group(), &group->ledger());
  ledgers.emplace_back("control", &world.control->ledger());
  if (world.results && &world.results->ledger() != &world.control->ledger())
    ledgers.emplace_back("results", &world.results->ledger());
  watchdog->watch(ledgers);
}

}  // namespace trainyard::engine
