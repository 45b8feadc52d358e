// Puts a world together.
#include "libtrain/engine/world.h"

#include "libtrain/comm/nccl.h"
#include "libtrain/comm/staged.h"

#include <utility>

namespace trainyard::engine {

void drain(tensor::Exec& communication, tensor::Exec& compute) noexcept {
  for (auto* exec : {&communication, &compute}) {
    try {
      exec->synchronize();
    } catch (const std::exception&) {
      // Nothing is under way after a failure.
    }
  }
}

World solo_world() { return make_world("solo", 0, 1, {}); }

World make_world(std::string kind, int rank, int size, comm::GroupFactory between, int tensor, int stages) {
  using plan::Axis;
  World w(std::move(kind), rank, plan::replicas_of(size, tensor, stages), std::move(between),
          {plan::Axes{Axis::data}, plan::Axes{Axis::tensor}});
  const int each = size / stages, first = rank % each,
            last = size - each + first;  // of what differs in the stage alone
  if (stages > 1 && (rank == first || rank == last)) w.stages = w.between("stages", {first, last});
  if (size > 1) w.communication = tensor::Exec::worker("communication", nullptr);
  return w;
}

void join_neighbours(World& world, int chunks, base::Device device) {
  if (world.topology.size(plan::Axis::pipe) == 1) return;
  using Views = comm::NeighboursOptions::Views;
  comm::NeighboursOptions options;
  options.ends = chunks > 1 ? comm::NeighboursOptions::Ends::ring : comm::NeighboursOptions::Ends::open;
  options.device = device.index;
  const auto& host = world.queues ? world.queues : world.between;
  if (device.kind == base::DeviceKind::cpu) {
    world.neighbours = std::make_unique<comm::Neighbours>(host, world.topology, world.rank, options);
    return;
  }
  const bool nccl = world.stages_on_device;
  options.views = nccl ? Views::device : Views::staged;
  const comm::GroupFactory between = [&](const std::string& name, const std::vector<int>& ranks) {
    auto made = host(name, ranks);
    return nccl ? comm::make_nccl(name, device.index, *made) : comm::staged(std::move(made));
  };
  world.neighbours = std::make_unique<comm::Neighbours>(between, world.topology, world.rank, options);
}

}  // namespace trainyard::engine
