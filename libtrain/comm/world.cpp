// Makes the groups of a world from its topology.
#include "libtrain/comm/world.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/solo.h"

#include <numeric>

namespace trainyard::comm {

World::World(std::string kind_, int rank_, plan::Topology topology_, GroupFactory between_,
             const std::vector<plan::Axes>& wanted)
    : rank(rank_), size(topology_.world()), kind(std::move(kind_)), topology(std::move(topology_)),
      between(std::move(between_)) {
  const auto make = [&](const std::string& name, const std::vector<int>& ranks) {
    return ranks.size() > 1 ? between(name, ranks) : make_solo(name);
  };
  std::vector<int> all(base::size(size));
  std::iota(all.begin(), all.end(), 0);
  control = make("control", all);
  for (const auto axes : wanted) groups_.emplace_back(axes, make(plan::name_of(axes), topology.peers(rank, axes)));
}

Communicator& World::group(plan::Axes axes) const {
  for (const auto& [along, communicator] : groups_)
    if (along == axes) return *communicator;
  TRAINYARD_ASSERT(false, "the world was made without a group along '{}'", plan::name_of(axes));
  return *control;
}

std::vector<Communicator*> World::groups() const {
  std::vector<Communicator*> all;
  for (const auto& [axes, communicator] : groups_) all.push_back(communicator.get());
  if (stages) all.push_back(stages.get());
  return all;
}

void World::replace_groups(const std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>& make) {
  for (auto& [axes, communicator] : groups_) communicator = make(std::move(communicator));
  if (stages) stages = make(std::move(stages));
}

}  // namespace trainyard::comm
