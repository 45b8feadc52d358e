// Starts the watchdogs of all ranks.
#include "libtrain/engine/watch.h"

#include <algorithm>
#include <vector>

namespace trainyard::engine {

std::unique_ptr<comm::Watchdog> watch_world(World& world, tensor::Exec& exchange, double timeout_seconds, std::function<void(const std::string&)> on_hang) {
  if (world.size == 1) return nullptr;
  comm::WatchdogOptions o;
  o.rank = world.rank;
  o.size = world.size;
  o.timeout_seconds = timeout_seconds;
  o.on_hang = std::move(on_hang);
  std::vector<std::pair<std::string, const comm::Ledger*>> ledgers{{"data", &world.data->ledger()}, {"control", &world.control->ledger()}};
  if (world.results && &world.results->ledger() != &world.control->ledger()) ledgers.emplace_back("results", &world.results->ledger());
  auto watchdog = std::make_unique<comm::Watchdog>(o, std::move(ledgers));
  std::vector<char> mine(64, '\0'), all(64 * static_cast<std::size_t>(world.size));
  const auto address = watchdog->address();
  std::copy_n(address.begin(), std::min<std::size_t>(63, address.size()), mine.begin());
  world.control->all_gather(exchange, base::View(mine.data(), base::DType::u8, {64}), base::View(all.data(), base::DType::u8, {64 * world.size}));
  exchange.synchronize();
  std::vector<std::string> addresses;
  for (int r = 0; r < world.size; ++r) addresses.emplace_back(all.data() + 64 * r);
  watchdog->start(addresses);
  return watchdog;
}

}  // namespace trainyard::engine
