// An all-to-all of equal parts.
#include "libtrain/model/expert_edges.h"

#include "libtrain/base/error.h"

#include <vector>

namespace trainyard::model {

const ExpertEdges& own_experts() {
  static const ExpertEdges none;
  return none;
}

ExpertEdges::ExpertEdges(params::StoreContext& context) {
  if (context.world.topology.size(plan::Axis::expert) > 1) context_ = &context;
}

void ExpertEdges::swap(base::View mine, base::View theirs) const {
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
  context_->transfers.let_some_follow();
  context_->join(done);
}

}  // namespace trainyard::model
