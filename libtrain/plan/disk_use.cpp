// Bytes on disk, and of its transfers.
#include "libtrain/plan/disk_use.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/schedule/accesses.h"

namespace trainyard::plan {

namespace {

// Bytes of the reads that leases make. Where the order keeps flat groups, a lease that finds its own in the slot reads
// nothing (params/gathered_weights.cpp).
std::int64_t fetched(const OffloadPlan& offload, const SlotPlan& slots, const LeaseOrder& leases) {
  std::vector<int> held(slots.elements().size(), -1);  // for each slot the flat group in it
  std::int64_t n = 0;
  for (const auto pass : leases.passes)
    for (const auto& occurrence : leases.lists[pass]) {
      auto& in_slot = base::at(held, slots.slot_of(occurrence.flat_group));
      if (!leases.keeps || in_slot != occurrence.flat_group) n += offload.fetch_bytes(occurrence.flat_group);
      in_slot = occurrence.flat_group;
    }
  return n;
}

SlotPlan slots_of_part(const Plan& plan, const ModelPart& part) {
  return {FlatGroupTable(part, plan.topology), plan.gathered_layers};
}

}  // namespace

OffloadPlan offload_of_stage(const Plan& plan, int stage) {
  if (!plan.offload.any()) return {};
  return {FlatGroupTable(plan.part_of_stage(stage), plan.topology), plan.states()};
}

base::StorageTotals disk_of_step(const Plan& plan, int rank, std::int64_t sequences) {
  const auto offload = offload_of_stage(plan, plan.stage_of(rank));
  auto batch = plan.batch();
  batch.global_batch = sequences, batch.ramp = {};
  auto n = offload.update_bytes();
  if (!offload.any()) return n;
  const auto part = plan.part_of_rank(rank);
  n.read += fetched(offload, slots_of_part(plan, part), step_leases(part, actions(plan, rank, batch)));
  return n;
}

DiskBytes most_disk_bytes(const Plan& plan) {
  DiskBytes most;
  if (!plan.offload.any()) return most;
  int rank = -1;
  for (int stage = 0; stage < plan.pipeline; ++stage)
    if (const auto bytes = offload_of_stage(plan, stage).disk_bytes(); bytes > most.space) {
      most.space = bytes;
      rank = plan.topology.rank_of({{Axis::pipe, stage}});
    }
  if (rank < 0) return most;
  const auto step = disk_of_step(plan, rank, plan.global_batch);
  most.read = step.read, most.written = step.written;
  return most;
}

}  // namespace trainyard::plan
