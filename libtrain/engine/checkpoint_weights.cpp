// Reads shards piece by piece.
#include "libtrain/engine/checkpoint_weights.h"

#include "kernels/cast/cast.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/held.h"

#include <algorithm>

namespace trainyard::engine {

namespace {

// Logical elements among elements [first, first + count) of a rank's shard; the others are gaps and padding.
std::int64_t logical_elements(const checkpoint::PartOfShard& part) {
  const auto layout = plan::layout(part.flat_group, part.topology);
  const auto begin = plan::place_in_group(part.topology, part.rank, part.flat_group.group) * layout.shard + part.first;
  std::int64_t n = 0;
  for (const auto& held : plan::held_ranges(layout, begin, begin + part.count)) {
    const auto& p = part.flat_group.parameters[held.parameter];
    for (const auto& box :
         checkpoint::boxes_of_held(p, plan::held_part(p, part.topology, part.rank), held.first, held.count))
      n += box.elements();
  }
  return n;
}

}  // namespace

CheckpointWeights::CheckpointWeights(const plan::FlatGroupSet& set, const plan::Topology& topology, int rank)
    : set_(set), topology_(topology), rank_(rank), host_(tensor::Exec::caller(nullptr, 1)),
      summed_(set.flat_groups.size()) {}

void CheckpointWeights::open(const checkpoint::Reader& reader) {
  presence_.emplace(reader.path(), checkpoint::Seen::listed);
  reader_.emplace(reader.another());
  reader_->leave_no_cache();
  sums_.emplace(*reader_);
  element_bytes_ = base::size_of(checkpoint::dtype_of(checkpoint::Kind::model, reader.state()));
}

void CheckpointWeights::read(int flat_group, base::View shard) {
  TRAINYARD_ASSERT(reader_ && shard.device.kind == base::DeviceKind::cpu, "weights are read without a checkpoint");
  if (presence_->is_lost()) checkpoint::throw_removed(reader_->path());
  try {
    for (std::int64_t first = 0; first < shard.count(); first += piece)
      read_piece(flat_group, first, shard.elements(first, std::min(piece, shard.count() - first)));
  } catch (const base::InputError&) {
    if (presence_->is_lost()) checkpoint::throw_removed(reader_->path());
    throw;
  }
  summed_[base::size(flat_group)] = true;
}

void CheckpointWeights::read_piece(int flat_group, std::int64_t first, base::View to) {
  const bool direct = to.dtype == base::DType::f32;
  if (!direct) wide_.resize(base::size(piece));
  auto* read = direct ? to.ptr<float>() : wide_.data();
  const checkpoint::PartOfShard part{base::at(set_.flat_groups, flat_group), topology_, rank_, first, to.count()};
  reader_->read_range(checkpoint::Kind::model, part, read);
  if (!summed_[base::size(flat_group)] && !base::at(set_.borrowed, flat_group))
    sums_->add(checkpoint::Kind::model, part, read);
  if (!direct) kernels::cast(*host_, base::View::of(read, {to.count()}), to);
  bytes_ += logical_elements(part) * element_bytes_;
  block_bytes_ = reader_->bytes_read();
}

}  // namespace trainyard::engine
