// Bytes and calls of a step, divided by rates.
#include "libtrain/plan/outside_passes.h"

#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/machine_time.h"
#include "libtrain/plan/measured_machine.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

constexpr double bytes_of_core = 17e9;  // a second, that AdamW reads and writes on one core (bench/RESULTS.md)

// What a rank reads and writes in its own memory. It updates its shards, and with ZeRO 0 all. States are read and
// written, gradients are read for their norm, in shards, and for the update. Weights are written, and read unless f32
// masters are kept apart. A later occurrence of a tied table is added to the first one before. Of gradients elsewhere
// the norm is computed here.
double update_bytes(const Plan& plan, int stage) {
  const auto part = plan.part_of_stage(stage);
  const auto shape = plan.states();
  std::int64_t weights = 0, gradients = 0;
  const FlatGroupTable table(part, plan.topology);
  for (const auto& e : table.entries()) {
    if (e.frozen) continue;
    const auto updated = plan.zero == 0 ? e.layout.padded : e.layout.shard;
    weights += e.times * updated;
    gradients +=
        e.times * (e.layout.shard + updated + 3 * std::max<std::int64_t>(0, e.occurrences - 1) * e.layout.shard);
  }
  const auto offload = offload_of_stage(plan, stage);
  for (const auto& e : offload.extents())
    (e.held == Held::gradient ? gradients : weights) -=
        e.held == Held::gradient || e.held == Held::parameter ? e.elements : 0;
  const bool masters_apart = base::is_narrow(plan.dtype) && plan.master == MasterFormat::f32;
  const auto states = state_bytes(table, shape).optimizer;
  return 2 * static_cast<double>(states) + static_cast<double>(gradients * base::size_of(shape.gradient)) +
         (masters_apart ? 1 : 2) * static_cast<double>(weights * base::size_of(plan.dtype));
}

// Other programs send a flat group in one call.
std::int64_t segments_with(bool rings) { return rings ? std::int64_t{1} << 50 : segment_bytes; }

// The exchange of zero groups comes before the first gathers of a step, and goes on beside passes as they do. Sums of
// norms, of rows and of columns belong to the update.
DataSeconds seconds_of_calls(const Plan& plan, const Machine& machine, std::vector<SizedCalls> calls, bool rings) {
  DataSeconds out;
  for (auto& c : calls) {
    if (rings && c.operation == "ordered_reduce_scatter") c.operation = "reduce_scatter";
    const double seconds = static_cast<double>(c.calls) * call_seconds(machine, plan.topology, c);
    const bool of_update = c.group.is_stages() || c.operation == "all_reduce",
               gather = c.operation == "all_gather" || c.operation == "all_to_all";
    (of_update        ? out.at_end
     : !gather        ? out.reductions
     : plan.zero == 3 ? out.gathers
     : plan.zero == 0 ? out.at_end
                      : out.at_begin) += seconds;
  }
  return out;
}

}  // namespace

void refuse_unknown(const Machine& m, const char* rate, const char* what) {
  throw base::InputError(fmt::format("the machine {} has no {}, which {} needs", m.name, rate, what),
                         m.measured ? std::string("profile-comm --storage FOLDERS measures disks, beside a rank itself")
                                    : base::text("add it to a file of your own: $machine FILE.toml"));
}

DataSeconds data_seconds(const Plan& plan, const Machine& machine, int stage, bool rings) {
  const auto part = plan.part_of_stage(stage);
  auto calls = step_calls(part, plan.states(), plan.reduction, 0, segments_with(rings));
  for (auto& c : flat_group_of_stages_calls(part, plan.stages, stage, plan.states())) calls.push_back(std::move(c));
  return seconds_of_calls(plan, machine, std::move(calls), rings);
}

// Alone, and breadth first, an item is gathered once a step.
ItemSeconds item_seconds(const Plan& plan, const Machine& machine, std::int64_t item, bool rings) {
  const auto part = ModelPart(plan.model, {{item, item + 1}}).with_experts(plan.experts());
  auto shape = plan.states();
  shape.batch = {plan.micro_batch * shape.batch.data_ranks, plan.micro_batch, 1, shape.batch.data_ranks};
  shape.breadth_first = true;
  const auto seconds =
      seconds_of_calls(plan, machine, step_calls(part, shape, plan.reduction, 0, segments_with(rings)), rings);
  return {seconds.gathers + seconds.at_begin, seconds.reductions};
}

UpdateSeconds update_seconds(const Plan& plan, const Machine& machine, int stage) {
  const double here = update_bytes(plan, stage);
  const double of_update =
      machine.measured ? machine.measured->update_rate * machine.speed : 0;  // of a rank; 0: unknown
  UpdateSeconds out{of_update > 0 ? here / of_update : move_seconds(machine, here)};
  double elsewhere = 0;
  const auto offload = offload_of_stage(plan, stage);
  for (const auto& e : offload.extents()) {
    const bool read_and_written = e.held == Held::master || e.held == Held::state;
    elsewhere += (read_and_written ? 2 : 1) * static_cast<double>(e.bytes());
  }
  if (elsewhere == 0) return out;
  const bool gpu = machine.device == base::DeviceKind::cuda;
  if (gpu && machine.host_bandwidth <= 0) refuse_unknown(machine, "host-bandwidth", "an update on the host");
  double of_host = machine.host_bandwidth * machine.memory_share;
  if (machine.cores > 0) of_host = std::min(of_host, machine.cores * bytes_of_core);
  const double rate = gpu             ? of_host / devices_used(machine, plan.topology.world())
                      : of_update > 0 ? of_update
                                      : machine.memory_bandwidth * machine.memory_share;
  out.on_host = elsewhere / rate;
  return out;
}

MovingSeconds moving_seconds(const Plan& plan, const Machine& machine, int stage) {
  MovingSeconds out;
  if (!plan.offload.any()) return out;
  const auto link = link_of_step(plan, stage, plan.global_batch);
  if (link != LinkBytes{}) {
    if (machine.host_link_bandwidth <= 0) refuse_unknown(machine, "host-link-bandwidth", "what lies on the host");
    const double rate = machine.host_link_bandwidth * machine.link_share;
    const auto once = offload_of_stage(plan, stage).update_link();
    out.all = static_cast<double>(std::max(link.down, link.up)) / rate;
    out.gradients_down = static_cast<double>(once.down) / rate, out.weights_up = static_cast<double>(once.up) / rate;
  }
  const auto disk = disk_of_step(plan, stage, plan.global_batch);
  if (disk.read + disk.written > 0) {
    if (machine.disk_read <= 0) refuse_unknown(machine, "disk-read", "what lies on disk");
    const auto seconds = [&](const base::StorageTotals& bytes) {
      if (machine.measured && machine.measured->storage.both > 0)
        return machine.measured->storage.seconds(bytes) / machine.speed;
      const double writes = machine.disk_write > 0 ? machine.disk_write : machine.disk_read;
      return devices_used(machine, plan.topology.world()) *
             (static_cast<double>(bytes.read) / machine.disk_read + static_cast<double>(bytes.written) / writes);
    };
    out.all = std::max(out.all, seconds(disk));
    out.update_on_disk = seconds(offload_of_stage(plan, stage).update_bytes());
  }
  return out;
}

}  // namespace trainyard::plan
