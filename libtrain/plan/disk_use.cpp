// Bytes on disk, and of its transfers.
#include "libtrain/plan/disk_use.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/activation_use.h"
#include "libtrain/plan/cost/traffic.h"

namespace trainyard::plan {

OffloadPlan offload_of_stage(const Plan& plan, int stage) {
  if (!plan.offload.any()) return {};
  return {FlatGroupTable(plan.part_of_stage(stage), plan.topology), plan.states()};
}

namespace {

// How often a step of `sequences` gathers each flat group.
std::vector<std::int64_t> gathers_of_step(const Plan& plan, int stage, std::int64_t sequences) {
  auto shape = plan.states();
  shape.batch.global_batch = sequences, shape.batch.ramp = {};
  shape.breadth_first = plan.breadth_first(shape.batch);
  const auto part = plan.part_of_stage(stage);
  return gathers_of_groups(part, FlatGroupTable(part, plan.topology), shape);
}

}  // namespace

std::vector<std::int64_t> disk_extents(const Plan& plan, int stage) {
  std::vector<std::int64_t> out;
  const auto offload = offload_of_stage(plan, stage);
  for (const auto& e : offload.extents())
    if (e.place == Place::disk) out.push_back(e.bytes());
  const auto inputs = activation_offload_of_stage(plan, stage);
  if (inputs.on_disk()) out.insert(out.end(), base::size(inputs.extents()), inputs.bytes());
  return out;
}

std::int64_t disk_space(const Plan& plan, int stage) {
  return offload_of_stage(plan, stage).disk_bytes() + activation_offload_of_stage(plan, stage).disk_bytes();
}

// A gather of weights that lie elsewhere begins with a read of the rank's shard.
base::StorageTotals disk_of_step(const Plan& plan, int stage, std::int64_t sequences, int reduction_position) {
  const auto offload = offload_of_stage(plan, stage);
  auto n = offload.update_bytes();
  const auto inputs = activations_of_step(plan, stage, sequences, reduction_position);
  n.read += inputs.read, n.written += inputs.written;
  if (!offload.any()) return n;
  const auto gathers = gathers_of_step(plan, stage, sequences);
  for (std::size_t u = 0; u < gathers.size(); ++u) n.read += gathers[u] * offload.fetch_bytes(static_cast<int>(u));
  return n;
}

LinkBytes link_of_step(const Plan& plan, int stage, std::int64_t sequences, int reduction_position) {
  const auto offload = offload_of_stage(plan, stage);
  auto n = offload.update_link();
  const auto inputs = activation_link_of_step(plan, stage, sequences, reduction_position);
  n.down += inputs.down, n.up += inputs.up;
  if (!offload.any() || plan.device != base::DeviceKind::cuda) return n;
  const auto gathers = gathers_of_step(plan, stage, sequences);
  for (std::size_t u = 0; u < gathers.size(); ++u) n.up += gathers[u] * offload.fetch_link(static_cast<int>(u));
  return n;
}

LinkBytes most_link_bytes(const Plan& plan) {
  LinkBytes most;
  if (!plan.offload.any()) return most;
  for (int stage = 0; stage < plan.pipeline; ++stage)
    if (const auto n = link_of_step(plan, stage, plan.global_batch); n.down + n.up > most.down + most.up) most = n;
  return most;
}

DiskBytes most_disk_bytes(const Plan& plan) {
  DiskBytes most;
  if (!plan.offload.any()) return most;
  int fullest = 0;
  for (int stage = 0; stage < plan.pipeline; ++stage)
    if (const auto bytes = disk_space(plan, stage); bytes > most.space) most.space = bytes, fullest = stage;
  const auto step = disk_of_step(plan, fullest, plan.global_batch);
  most.read = step.read, most.written = step.written;
  return most;
}

}  // namespace trainyard::plan
