// Starts the watchdogs of all ranks, and gives them ledgers.
#include "libtrain/engine/watch.h"

#include "libtrain/base/index.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/plan/grid/call_group.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainyard::engine {

namespace {

using Judged = comm::WatchedGroup::Judged;

// For each rank of a stage that shares flat groups with others: the first peer along the pipeline.
std::vector<int> numbers_of_stages(const World& world) {
  auto out = world.topology.first_peers({plan::Axis::pipe});
  for (int r = 0; r < world.topology.world(); ++r) {
    const int stage = world.topology.coordinate(r, plan::Axis::pipe);
    const auto& sharing = world.sharing_stages;
    if (std::find(sharing.begin(), sharing.end(), stage) == sharing.end()) base::at(out, r) = -1;
  }
  return out;
}

}  // namespace

std::unique_ptr<comm::Watchdog> watch_peers(World& world, tensor::Exec& exec, double timeout_seconds,
                                            std::function<void(const std::string&, comm::Decided)> otherwise) {
  if (world.size == 1) return nullptr;
  comm::WatchdogOptions o;
  o.rank = world.rank;
  o.size = world.size;
  o.timeout_seconds = timeout_seconds;
  o.key = comm::agree_on_watchdog_key(*world.control, exec);
  o.on_hang = world.on_hang ? world.on_hang : std::move(otherwise);
  auto watchdog = std::make_unique<comm::Watchdog>(
      o, std::vector<comm::WatchedLedger>{{{"control", {}, Judged::patiently}, &world.control->ledger()}});
  watchdog->ask_what_is_done([] { return std::string("starting"); });
  watchdog->start(comm::texts_of_all(*world.control, exec, watchdog->address()));
  return watchdog;
}

std::vector<comm::WatchedLedger> watched_calls(const World& world, Calls calls) {
  // First what all ranks have watched before. So ranks that are here compare it with ranks that are not here yet.
  std::vector<comm::WatchedLedger> ledgers{{{"control", {}, Judged::last}, &world.control->ledger()}};
  using plan::Axis;
  for (const auto axis : {Axis::data, Axis::tensor, Axis::expert, Axis::expert_data, Axis::expert_outer,
                          Axis::expert_inner, Axis::zero_group, Axis::reduction_outer, Axis::reduction_inner})
    if (world.topology.size(axis) > 1) {
      const auto& group = world.group({axis});
      ledgers.push_back({{group.group(), world.topology.first_peers({axis})}, &group.ledger()});
    }
  if (world.neighbours) {
    for (const auto& watched : world.neighbours->watched()) ledgers.push_back(watched);
    ledgers.push_back({{plan::name_of(plan::CallGroup::stages()), numbers_of_stages(world)},
                       world.stages ? &world.stages->ledger() : nullptr});
  }
  if (world.results && &world.results->ledger() != &world.control->ledger())
    ledgers.push_back({{"results"}, &world.results->ledger()});
  if (calls == Calls::of_a_start)
    for (auto& l : ledgers) l.group.judged = Judged::patiently;
  return ledgers;
}

void watch_calls(comm::Watchdog* watchdog, const World& world, Calls calls) {
  if (watchdog != nullptr) watchdog->watch(watched_calls(world, calls));
}

}  // namespace trainyard::engine
