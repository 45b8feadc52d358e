// The fold: unit buffers, local groups, and the ordered reduction into the owner's piece.
#include "libtrain/params/gradients.h"

#include "kernels/cast/cast.h"
#include "kernels/fold/fold.h"
#include "libtrain/base/error.h"
#include "libtrain/comm/segments.h"

#include <algorithm>
#include <utility>

namespace trainyard::params {

using Place = GradientFold::Position::Place;

GradientFold::GradientFold(StoreContext& c)
    : c_(c), plan_(plan::gradient_plan(c.shape)),
      slots_(c.set.table, c.shape.layer_slots, plan::SlotPlan::Of::gradients), whole_free_(c.set.uses.size()),
      buffer_free_(slots_.elements().size()) {
  const auto dtype = c.shape.gradient;
  for (int u = 0; u < c.units(); ++u) {
    const auto contributions = c.group(u).size() * c.set.contributions[static_cast<std::size_t>(u)];
    // Who has a micro-batch in a round is counted along data; only a library's sum of full rounds needs no count.
    TRAINYARD_ASSERT(
        contributions == c.shape.batch.data_ranks || (c.reduction == plan::Reduction::fast && c.group(u).size() > 1),
        "{} is reduced from {} contributions, but its micro-batches are those of {} ranks", c.unit(u).name,
        contributions, c.shape.batch.data_ranks);
  }
  if (plan_.whole)
    for (auto use : c.set.uses) wholes_.push_back(c.gradients.allocate(dtype, {all_of(use)}));
  for (std::size_t i = 0; i < c.set.uses.size(); ++i) {
    const auto piece = c.set.piece_of(c.set.uses[i]);
    sums_.push_back(plan_.pieces ? c.gradients.allocate(dtype, {piece})
                                 : flat_range(wholes_[i], c.group(c.set.uses[i].unit).rank() * piece, piece));
  }
  if (plan_.units)
    for (auto elements : slots_.elements()) buffers_.push_back(c.unit_gradients.allocate(dtype, {elements}));
  if (const auto most = c.set.table.largest_shared(); most > 0) staging_ = c.staging.allocate(dtype, {most});
}

// A local group starts in `whole` itself, so its first micro-batch needs no adding; stage 1 keeps its single
// micro-batch there.
bool GradientFold::writes_into_whole() const {
  if (c_.shape.batch.fold > 1) return position_.place == Place::first || position_.place == Place::only;
  return !plan_.units;
}

void GradientFold::open(plan::Use use) {
  auto& free = writes_into_whole() ? whole_free_[index(use)] : buffer_free_[slot_index(use)];
  c_.join(c_.transfers.done(free));
  free = 0;
}

base::View GradientFold::whole(plan::Use use) {
  if (writes_into_whole()) return wholes_[index(use)];
  return flat_range(buffers_[slot_index(use)], 0, all_of(use));
}

void GradientFold::commit(plan::Use use) {
  const auto micro = whole(use);
  const bool grouped = c_.shape.batch.fold > 1;
  if (grouped && !writes_into_whole()) {
    const auto made = made_in_round(use) * c_.set.padded_of(use);
    if (made > 0) kernels::add(c_.compute, flat_range(wholes_[index(use)], 0, made), flat_range(micro, 0, made));
  }
  if (!ends_group(position_.place)) return;
  const bool from_whole = grouped || !plan_.units;
  (from_whole ? whole_free_[index(use)] : buffer_free_[slot_index(use)]) =
      reduce(use, from_whole ? wholes_[index(use)] : micro, c_.shape.batch.contributors(position_.round));
}

void GradientFold::idle(plan::Use use, std::int64_t round) {
  const auto before = std::exchange(position_, {round, Place::only});
  if (c_.reduction == plan::Reduction::ordered) {
    reduce(use, base::View{}, c_.shape.batch.contributors(round));
  } else {
    open(use);
    const auto zeros = whole(use);
    kernels::fill(c_.compute, zeros, 0.0);
    commit(use);
  }
  position_ = before;
}

std::int64_t GradientFold::made_in_round(plan::Use use) const {
  const int each = contributions(use);
  return std::clamp(c_.shape.batch.contributors(position_.round) - c_.group(use.unit).rank() * each, 0, each);
}

Transfers::Ticket GradientFold::reduce(plan::Use use, base::View source, int contributors) {
  const auto round = position_.round == 0 ? base::FoldRound::first : base::FoldRound::next;
  auto& group = c_.group(use.unit);
  const auto total = sum(use);
  const int each = contributions(use);
  const bool in_place = each == 1 && round == base::FoldRound::first && source.data == total.data;
  if (group.size() == 1 && in_place) return 0;
  if (group.size() == 1) {  // nothing travels: the team of the compute Exec adds
    comm::ordered_reduce_scatter_several(group, c_.compute, source, each, {}, total, round, contributors, 0,
                                         total.count());
    return 0;
  }
  const auto ready = c_.compute.record();
  if (c_.reduction == plan::Reduction::fast)
    return c_.transfers.add(1, [this, &group, source, total, round, ready](std::int64_t) {
      c_.communication.wait(ready);
      const auto mine = flat_range(staging_, 0, total.count());
      group.reduce_scatter(c_.communication, source, mine);
      kernels::fold(c_.communication, mine.reshaped({1, mine.count()}), total, round);
    });
  const auto staging = flat_range(staging_, 0, all_of(use));
  const auto segments = c_.segments(use.unit, c_.set.padded_of(use) * base::size_of(total.dtype));
  return c_.transfers.add(segments, [=, this, &group](std::int64_t i) {
    if (i == 0) c_.communication.wait(ready);
    if (segments == 1 && each == 1)
      return comm::ordered_reduce_scatter(group, c_.communication, source, staging, total, round, contributors);
    const auto [first, count] = StoreContext::segment(total.count(), segments, i);
    comm::ordered_reduce_scatter_several(group, c_.communication, source, each, staging, total, round, contributors,
                                         first, count);
  });
}

void GradientFold::finish() {
  c_.transfers.finish();
  c_.join(c_.communication.record());
  for (auto use : c_.set.uses)
    if (use.use > 0) kernels::add(c_.compute, sum({use.unit, 0}), sum(use));
}

base::View GradientFold::piece(int unit) { return sum({unit, 0}); }
base::View GradientFold::gathered(int unit) { return flat_range(wholes_[index({unit, 0})], 0, c_.layout(unit).padded); }

void GradientFold::gather_sums() {
  if (c_.shared()) c_.communication.wait(c_.compute.record());
  for (int u = 0; u < c_.units(); ++u) {
    if (c_.group(u).size() > 1) c_.group(u).all_gather(c_.communication, piece(u), gathered(u));
    else if (plan_.pieces) kernels::copy(c_.compute, piece(u), gathered(u));
  }
  if (c_.shared()) c_.join(c_.communication.record());
}

}  // namespace trainyard::params
