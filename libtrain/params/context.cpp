// Gathers in segments, and views into flat groups.
#include "libtrain/params/context.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/segments.h"

namespace trainyard::params {

std::int64_t StoreContext::segments(int u, std::int64_t bytes) const {
  return plan::transfer_segments(bytes, group(u).size(), shape.topology, segment_bytes);
}

std::pair<std::int64_t, std::int64_t> StoreContext::segment(std::int64_t shard, std::int64_t segments, std::int64_t i) {
  const auto range = plan::transfer_segment(shard, segments, i);
  return {range.first, range.count};
}

Transfers::Ticket StoreContext::gather(comm::Communicator& among, base::View shard, base::View whole,
                                       const tensor::Event& ready, std::function<void()> before) {
  const auto n = plan::transfer_segments(whole.bytes(), among.size(), shape.topology, segment_bytes);
  return transfers.add(n, [this, &among, shard, whole, ready, n, before = std::move(before)](std::int64_t i) {
    if (i == 0) communication.wait(ready);
    if (i == 0 && before) communication.run(before);
    if (n == 1) return among.all_gather(communication, shard, whole);
    const auto [first, count] = segment(shard.count(), n, i);
    comm::all_gather_range(among, communication, shard, whole, first, count);
  });
}

base::View flat_range(base::View flat, std::int64_t first, std::int64_t count) {
  TRAINYARD_ASSERT(first >= 0 && first + count <= flat.count(), "range [{}, {}) of {}", first, first + count,
                   flat.count());
  return flat.elements(first, count);
}

base::View slot_view(const plan::FlatLayout& layout, base::View whole, int slot) {
  TRAINYARD_ASSERT(slot >= 0 && slot < std::ssize(layout.shapes), "parameter {} is asked for, of a flat group of {}",
                   slot, layout.shapes.size());
  const auto p = base::size(slot);
  const auto& shape = layout.shapes[p];
  const auto flat = flat_range(whole, layout.offsets[p], layout.count(p));
  return shape.size() == 1 ? flat : flat.reshaped({shape[0], shape[1]});
}

}  // namespace trainyard::params
