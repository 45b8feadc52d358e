// Gradient reduction: flat group buffers, local accumulation, and the ordered reduction into the owner's shard.
#include "libtrain/params/gradients.h"

#include "kernels/cast/cast.h"
#include "kernels/ordered_sum/ordered_sum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/node_reduction.h"
#include "libtrain/comm/segments.h"
#include "libtrain/plan/cost/reduction_node_calls.h"
#include "libtrain/plan/grid/reduction_nodes.h"

#include <algorithm>
#include <utility>

namespace trainyard::params {

using Place = GradientReduction::Position::Place;

GradientReduction::GradientReduction(StoreContext& c, Complete complete)
    : c_(c), plans_{plan::gradient_plan(c.shape), plan::gradient_plan(c.shape, 2)},
      slots_(plan::gradient_slots(c.set.table, c.shape)), buffer_free_(slots_.elements().size()),
      complete_(std::move(complete)), disk_sums_(c.offloaded ? c.offloaded->plan().sum_bytes().size() : 0) {
  const auto dtype = c.shape.gradient;
  for (int u = 0; u < c.flat_groups(); ++u) {
    const auto contributions = c.group(u).size() * base::at(c.set.contributions, u);
    // contributors() counts who has a part of a micro-batch in an accumulation step. Only a library's sum of full
    // accumulation steps needs no count.
    TRAINYARD_ASSERT(contributions == parts(u) * c.shape.batch.data_ranks ||
                         (c.reduction == plan::Reduction::fast && c.group(u).size() > 1),
                     "{} is reduced from {} contributions, but its micro-batches are those of {} ranks",
                     c.flat_group(u).name, contributions, c.shape.batch.data_ranks);
    reduction_orders_.push_back(c.world.topology.reduction_order(c.world.rank, c.flat_group(u).group));
  }
  for (auto occurrence : c.set.occurrences) {
    const auto kept = plan::kept_sources(c.shape, sources(occurrence));
    wholes_.push_back(plan(occurrence).whole && !c.is_frozen(occurrence.flat_group)
                          ? c.arenas.gradients.allocate(dtype, {kept * c.set.padded_of(occurrence)})
                          : base::View{});
    whole_free_.emplace_back(base::size(kept));
  }
  for (std::size_t i = 0; i < c.set.occurrences.size(); ++i) {
    const auto occurrence = c.set.occurrences[i];
    const auto shard = c.set.shard_of(occurrence);
    if (c.is_frozen(occurrence.flat_group)) {
      sums_.emplace_back();
      continue;
    }
    if (leaves(occurrence.flat_group)) {
      TRAINYARD_ASSERT(plan(occurrence).shards && occurrence.index == 0, "the gradient of {} is on disk",
                       c.flat_group(occurrence.flat_group).name);
      sums_.push_back(c.offloaded->sum(occurrence.flat_group, dtype, shard));
      continue;
    }
    sums_.push_back(plan(occurrence).shards
                        ? c.arenas.gradients.allocate(dtype, {shard})
                        : flat_range(wholes_[i], c.group(occurrence.flat_group).rank() * shard, shard));
  }
  for (auto elements : slots_.elements())
    buffers_.push_back(elements > 0 ? c.arenas.micro_batch_gradients.allocate(dtype, {elements}) : base::View{});
  if (const auto most = plan::reduction_staging(c.set.table, c.shape); most > 0)
    staging_ = c.arenas.staging.allocate(dtype, {most});
}

// The first micro-batch of a local accumulation group is written into `whole` itself, so it needs no addition. Without
// local accumulation ZeRO 1 writes every micro-batch there.
bool GradientReduction::writes_into_whole(plan::Occurrence occurrence) const {
  if (c_.shape.batch.local_accumulation > 1) return position_.place == Place::first || position_.place == Place::only;
  return !plan(occurrence).buffers;
}

base::View GradientReduction::local(plan::Occurrence occurrence, int source) {
  const auto padded = c_.set.padded_of(occurrence);
  return flat_range(wholes_[index(occurrence)], source * padded, padded);
}

Transfers::Ticket& GradientReduction::free(plan::Occurrence occurrence, int source) {
  return writes_into_whole(occurrence) ? base::at(whole_free_[index(occurrence)], source)
                                       : buffer_free_[slot_index(occurrence, source)];
}

void GradientReduction::open(plan::Occurrence occurrence, int source) {
  finish_update();
  c_.join(c_.transfers.done(free(occurrence, source)));
  free(occurrence, source) = 0;
}

base::View GradientReduction::whole(plan::Occurrence occurrence, int source) {
  if (writes_into_whole(occurrence)) return local(occurrence, source);
  return flat_range(buffers_[slot_index(occurrence, source)], 0, c_.set.padded_of(occurrence));
}

void GradientReduction::commit(plan::Occurrence occurrence, int source) {
  const bool grouped = c_.shape.batch.local_accumulation > 1;
  if (grouped && !writes_into_whole(occurrence) && wanted(occurrence, source))
    kernels::add(c_.compute, local(occurrence, source), whole(occurrence, source));
  if (!ends_group(position_.place)) return;
  const bool from_whole = grouped || !plan(occurrence).buffers;
  (from_whole ? base::at(whole_free_[index(occurrence)], source) : buffer_free_[slot_index(occurrence, source)]) =
      reduce(occurrence, source, from_whole ? local(occurrence, source) : whole(occurrence, source));
}

void GradientReduction::idle(plan::Occurrence occurrence, std::int64_t round) {
  const auto before = std::exchange(position_, {round, Place::only});
  if (c_.reduction == plan::Reduction::ordered) {
    for (int source = 0; source < sources(occurrence); ++source) reduce(occurrence, source, base::View{});
  } else {
    open(occurrence, 0);
    kernels::fill(c_.compute, whole(occurrence, 0), 0.0);
    commit(occurrence, 0);
  }
  position_ = before;
}

int GradientReduction::parts(int flat_group) const {
  const auto contributions = c_.group(flat_group).size() * base::at(c_.set.contributions, flat_group);
  return std::max(1, contributions / c_.shape.batch.data_ranks);
}

int GradientReduction::contributors(plan::Occurrence occurrence, int source) const {
  const int ranks = c_.group(occurrence.flat_group).size(),
            having = parts(occurrence.flat_group) * c_.shape.batch.contributors(position_.round);
  return std::clamp(having - source * ranks, 0, ranks);
}

// Reads `gradient` only if this rank contributes. If all micro-batches of a source are empty, no rank makes the call.
Transfers::Ticket GradientReduction::reduce(plan::Occurrence occurrence, int source, base::View gradient) {
  finish_update();
  const auto round = position_.round == 0 && source == 0 ? base::ReductionRound::first : base::ReductionRound::next;
  const auto total = sum(occurrence);
  if (leaves(occurrence.flat_group) && round == base::ReductionRound::first) claim_sum(occurrence.flat_group);
  const auto ticket = issue(occurrence, source, gradient, total, round);
  if (leaves(occurrence.flat_group)) {
    auto& mine = base::at(disk_sums_, c_.offloaded->plan().sum_slot(occurrence.flat_group));
    if (ticket != 0) mine.reduced = ticket;
    mine.complete = position_.round + 1 == c_.shape.batch.accumulation_steps() && source + 1 == sources(occurrence);
  }
  return ticket;
}

Transfers::Ticket GradientReduction::issue(plan::Occurrence occurrence, int source, base::View gradient,
                                           base::View total, base::ReductionRound round) {
  auto& group = c_.group(occurrence.flat_group);
  if (c_.reduction == plan::Reduction::fast && group.size() > 1) {
    const auto ready = c_.compute.record();
    return c_.transfers.add(1, [this, &group, gradient, total, round, ready](std::int64_t) {
      c_.communication.wait(ready);
      const auto mine = flat_range(staging_, 0, total.count());
      group.reduce_scatter(c_.communication, gradient, mine);
      kernels::ordered_sum(c_.communication, mine.reshaped({1, mine.count()}), total, round);
    });
  }
  const int having = contributors(occurrence, source);
  if (having == 0) return 0;
  if (group.size() == 1) {  // nothing is sent: the OpenMP team of the compute Exec adds
    if (round == base::ReductionRound::next || gradient.data != total.data)
      comm::ordered_reduce_scatter(group, c_.compute,
                                   {.in = gradient, .staging = {}, .sum = total, .round = round, .contributors = 1});
    return 0;
  }
  const auto ready = c_.compute.record();
  const bool nodes = plan::ReductionNodes(c_.shape.topology).any();
  const auto staging = nodes ? staging_ : flat_range(staging_, 0, c_.set.padded_of(occurrence));
  const auto segments = c_.segments(occurrence.flat_group, c_.set.padded_of(occurrence) * base::size_of(total.dtype));
  const std::span<const int> order = base::at(reduction_orders_, occurrence.flat_group);
  return c_.transfers.add(segments, [=, this, &group](std::int64_t i) {
    if (i == 0) c_.communication.wait(ready);
    const comm::OrderedReduction reduction{.in = gradient,
                                           .staging = staging,
                                           .sum = total,
                                           .round = round,
                                           .contributors = having,
                                           .reduction_positions = order};
    const auto [first, count] = StoreContext::segment(total.count(), segments, i);
    if (nodes) {
      const comm::ReductionHops hops{c_.world.group({plan::Axis::reduction_inner}),
                                     c_.world.group({plan::Axis::reduction_outer}), c_.shape.reduction_piece};
      return comm::ordered_reduce_scatter_range(hops, c_.communication, reduction, first, count);
    }
    if (segments == 1) return comm::ordered_reduce_scatter(group, c_.communication, reduction);
    comm::ordered_reduce_scatter_range(group, c_.communication, reduction, first, count);
  });
}

// The update of the step before reads its gradients, and the numbers of its step. By the first backward pass it has
// mostly ended, because forward passes wait for it group by group.
void GradientReduction::finish_update() {
  if (c_.offloaded != nullptr) c_.offloaded->finish_update();
}

// An earlier step may have been abandoned.
void GradientReduction::begin() {
  for (auto& each : disk_sums_) each.left = true, each.reduced = 0;
}

// A sum is sent on when another group begins one, so the disk has the time of that group to write it. The slot that
// the group needs was sent on before, unless there is one slot only. Breadth first, groups of one layer take turns, so
// not every other sum is complete.
void GradientReduction::claim_sum(int flat_group) {
  send_sums(Sums::complete);
  auto& mine = base::at(disk_sums_, c_.offloaded->plan().sum_slot(flat_group));
  c_.offloaded->wait(std::exchange(mine.written, {}));
  TRAINYARD_ASSERT(mine.left || mine.flat_group == flat_group, "the sum of {} is needed for {} before it is complete",
                   c_.flat_group(mine.flat_group).name, c_.flat_group(flat_group).name);
  mine = {flat_group, false, false, 0, {}};
}

void GradientReduction::send_sums(Sums which) {
  for (auto& each : disk_sums_) {
    if (each.left || (which == Sums::complete && !each.complete)) continue;
    c_.join(c_.transfers.done(std::exchange(each.reduced, 0)));
    const auto total = sum({each.flat_group, 0});
    if (c_.shape.rounds_sums()) kernels::round_to_bf16(c_.compute, total);
    if (complete_) complete_(each.flat_group, total);
    each.written = c_.offloaded->write_gradient(c_.compute, each.flat_group, total);
    each.left = true;
  }
}

void GradientReduction::finish() {
  c_.transfers.finish();
  c_.join(c_.communication.record());
  send_sums(Sums::all);
  const auto of_stages = [&](int flat_group) {
    return std::any_of(c_.flat_groups_of_stages.begin(), c_.flat_groups_of_stages.end(),
                       [&](const auto& shared) { return shared.flat_group == c_.flat_group(flat_group).name; });
  };
  for (auto occurrence : c_.set.occurrences)
    if (occurrence.index > 0 && !c_.is_frozen(occurrence.flat_group) && !of_stages(occurrence.flat_group))
      kernels::add(c_.compute, sum({occurrence.flat_group, 0}), sum(occurrence));
}

void GradientReduction::round_sums() {
  if (!c_.shape.rounds_sums()) return;
  for (int u = 0; u < c_.flat_groups(); ++u)
    if (!leaves(u) && !c_.is_frozen(u)) kernels::round_to_bf16(c_.compute, shard(u));
}

base::View GradientReduction::shard(int flat_group) {
  TRAINYARD_ASSERT(!leaves(flat_group), "the gradient of {} is on disk", c_.flat_group(flat_group).name);
  return sum({flat_group, 0});
}
base::View GradientReduction::gathered(int flat_group) { return local({flat_group, 0}, 0); }

void GradientReduction::gather_sums() {
  if (c_.shared()) c_.communication.wait(c_.compute.record());
  for (int u = 0; u < c_.flat_groups(); ++u) {
    if (c_.is_frozen(u)) continue;
    if (c_.group(u).size() > 1) c_.group(u).all_gather(c_.communication, shard(u), gathered(u));
    else if (plan({u, 0}).shards) kernels::copy(c_.compute, shard(u), gathered(u));
  }
  if (c_.shared()) c_.join(c_.communication.record());
}

}  // namespace trainyard::params
