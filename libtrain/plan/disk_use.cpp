// Bytes on disk, and of its transfers.
#include "libtrain/plan/disk_use.h"

#include "libtrain/plan/schedule/accesses.h"

namespace trainyard::plan {

namespace {

std::int64_t fetched(const OffloadPlan& offload, const LeaseOrder& leases) {
  std::vector<std::int64_t> of_list;
  for (const auto& list : leases.lists) {
    auto& bytes = of_list.emplace_back();
    for (const auto& occurrence : list) bytes += offload.fetch_bytes(occurrence.flat_group);
  }
  std::int64_t n = 0;
  for (const auto pass : leases.passes) n += of_list[pass];
  return n;
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
  if (offload.any()) n.read += fetched(offload, step_leases(plan.part_of_rank(rank), actions(plan, rank, batch)));
  return n;
}

base::StorageTotals disk_of_validation(const Plan& plan, int rank, std::int64_t sequences) {
  const auto stage = plan.stage_of(rank);
  const auto offload = offload_of_stage(plan, stage);
  base::StorageTotals n;
  if (!offload.any()) return n;
  const auto part = plan.part_of_rank(rank);
  for (int chunk = 0; chunk < plan.stages.chunks(); ++chunk)
    n.read += fetched(offload, {{leases_of(evaluation_accesses(part, chunk))}, {0}});
  n.read *= validation_rounds(plan.batch(), sequences);
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
