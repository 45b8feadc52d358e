// Puts a world together.
#include "libtrain/engine/world.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/comm/nccl.h"
#include "libtrain/comm/staged.h"
#include "libtrain/plan/grid/call_group.h"

#include <algorithm>
#include <utility>

namespace trainyard::engine {

void drain(tensor::Exec& communication, tensor::Exec& compute) noexcept {
  for (auto* exec : {&communication, &compute}) {
    try {
      exec->synchronize();
    } catch (const std::exception&) {
      // After a failure no work is under way.
    }
  }
}

World solo_world() { return make_world("solo", 0, 1, {}); }

World make_world(std::string kind, int rank, int size, comm::GroupFactory between) {
  return make_world(std::move(kind), rank, plan::replicas_of(size, 1), std::move(between));
}

World make_world(std::string kind, int rank, const plan::Topology& topology, comm::GroupFactory between) {
  using plan::Axis;
  std::vector<plan::Axes> groups{{Axis::data}, {Axis::tensor}};
  for (const auto axis : {Axis::expert, Axis::expert_data})
    if (topology.size(Axis::expert) > 1) groups.push_back({axis});
  for (const auto axis :
       {Axis::expert_outer, Axis::expert_inner, Axis::zero_group, Axis::reduction_outer, Axis::reduction_inner})
    if (topology.size(axis) > 1) groups.push_back({axis});
  World w(std::move(kind), rank, topology, std::move(between), groups);
  w.communication =
      w.size > 1 ? tensor::Exec::worker("communication", nullptr) : tensor::Exec::caller(nullptr, 1);  // never null
  return w;
}

void require_layout(const World& world, const plan::Plan& p) {
  std::string other;
  for (const auto& [axis, name, second_reading] : plan::axis_names)
    if (const auto has = world.topology.size(axis), needs = p.topology.size(axis); has != needs)
      other += fmt::format("{}{} along {} (the plan needs {})", other.empty() ? "" : ", ", base::counted(has, "rank"),
                           name, needs);
  if (!other.empty())
    throw base::UsageError(fmt::format("the world has another parallel layout than the plan: {}", other),
                           "engine::make_world(kind, rank, plan::topology_of(config, size), factory) makes a world for "
                           "the settings config");
}

namespace {

void join_sharing_stages(World& world, base::Device device, const std::vector<int>& sharing) {
  world.sharing_stages = sharing;
  if (std::find(sharing.begin(), sharing.end(), world.coordinate(plan::Axis::pipe)) == sharing.end()) return;
  const auto of_pipe = world.topology.peers(world.rank, {plan::Axis::pipe});
  std::vector<int> ranks;
  for (const int stage : sharing) ranks.push_back(base::at(of_pipe, stage));
  const auto name = plan::name_of(plan::CallGroup::stages());
  world.stages = world.between(name, ranks);
  if (device.kind == base::DeviceKind::cpu) return;
  world.stages = world.stages_on_device ? comm::make_nccl(name, device.index, *world.stages)
                                        : comm::staged(std::move(world.stages));
}

}  // namespace

void join_neighbours(World& world, int chunks, base::Device device, const std::vector<int>& sharing) {
  if (world.topology.size(plan::Axis::pipe) == 1) return;
  join_sharing_stages(world, device, sharing);
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
