// Follows the leases, and adds up what has to be read for them.
#include "libtrain/plan/streamed_reads.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/held.h"

namespace trainyard::plan {

namespace {

// Bytes of the logical elements in the rank's shard. Gaps and padding are in no file.
std::int64_t shard_bytes(const FlatGroup& flat_group, const Topology& topology, int rank, std::int64_t stored_bytes) {
  const auto of = layout(flat_group, topology);
  const auto begin = place_in_group(topology, rank, flat_group.group) * of.shard;
  std::int64_t elements = 0;
  for (const auto& held : held_ranges(of, begin, begin + of.shard)) {
    const auto& p = flat_group.parameters[held.parameter];
    for_each_held_run(p, held_part(p, topology, rank), held.first, held.count,
                      [&](const HeldRun& run) { elements += run.count; });
  }
  return elements * stored_bytes;
}

}  // namespace

LeaseOrder evaluation_leases(const ModelPart& part, const Pipeline& pipeline, int stage, std::int64_t micros) {
  LeaseOrder out;
  for (int c = 0; c < static_cast<int>(part.chunks.size()); ++c)
    out.lists.push_back(leases_of(evaluation_accesses(part, c)));
  for (const auto& action : evaluation_actions(micros, pipeline, stage))
    if (action.kind == Action::Kind::forward) out.passes.push_back(static_cast<std::uint8_t>(action.chunk));
  return out;
}

StreamedReads::StreamedReads(const ModelPart& part, const Topology& topology, int rank, int gathered_layers,
                             std::int64_t stored_bytes)
    : slots_(FlatGroupTable(part, topology), gathered_layers), holds_(slots_.elements().size(), -1) {
  for (const auto& flat_group : flat_groups(part))
    shard_bytes_.push_back(shard_bytes(flat_group, topology, rank, stored_bytes));
}

std::int64_t StreamedReads::add(const LeaseOrder& leases) {
  const auto before = bytes_;
  for (const auto pass : leases.passes)
    for (const auto& occurrence : leases.lists[pass]) {
      auto& held = base::at(holds_, slots_.slot_of(occurrence.flat_group));
      if (held == occurrence.flat_group) continue;
      held = occurrence.flat_group;
      bytes_ += base::at(shard_bytes_, occurrence.flat_group);
    }
  return bytes_ - before;
}

}  // namespace trainyard::plan
