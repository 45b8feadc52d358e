// An all-to-all of equal parts.
#include "libtrain/model/expert_edges.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <vector>

namespace trainyard::model {

const ExpertEdges& own_experts() {
  static const ExpertEdges none;
  return none;
}

ExpertEdges::ExpertEdges(params::StoreContext& context, std::int64_t buffer) : buffer_(buffer) {
  if (context.world.topology.size(plan::Axis::expert) > 1) context_ = &context;
}

void ExpertEdges::swap(base::View mine, base::View theirs, bool followed) const {
  TRAINYARD_ASSERT(mine.count() == theirs.count() && mine.count() % ranks() == 0 && mine.dense() && theirs.dense(),
                   "{} elements for {} in parts for {} ranks", mine.count(), theirs.count(), ranks());
  auto& communication = context_->communication;
  // A rank that idles makes no calls among tensor ranks for transfers to follow: those that came before go before.
  if (const auto& batch = context_->shape.batch; batch.fold_groups() % batch.data_ranks != 0)
    context_->transfers.issue_all();
  communication.wait(context_->compute.record());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks()), mine.count() / ranks());
  group().all_to_all(communication, mine.reshaped({mine.count()}), counts, theirs.reshaped({theirs.count()}), counts);
  const auto done = communication.record();
  if (followed) context_->transfers.let_some_follow();
  context_->join(done);
}

void ExpertEdges::agree_on_most(base::View number) const {
  auto& communication = context_->communication;
  communication.wait(context_->compute.record());
  group().all_reduce(communication, number, comm::Reduction::max);
  context_->join(communication.record());
}

void ExpertEdges::count_rounds(std::int64_t layer, std::int64_t rounds, Direction direction) const {
  auto& further = counted_->further;
  if (static_cast<std::int64_t>(further.size()) <= layer) further.resize(static_cast<std::size_t>(layer) + 1);
  auto& of = further[static_cast<std::size_t>(layer)];
  (direction == Direction::forward ? of.forward : of.backward) += rounds - 1;
  counted_->most = std::max(counted_->most, rounds);
}

}  // namespace trainyard::model
