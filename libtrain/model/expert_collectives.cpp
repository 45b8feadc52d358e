// All-to-alls between expert-parallel ranks: of one buffer in equal parts, or of many views.
#include "libtrain/model/expert_collectives.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/segments.h"
#include "libtrain/plan/dispatch_rounds.h"

#include <algorithm>
#include <vector>

namespace trainyard::model {

const ExpertCollectives& own_experts() {
  static const ExpertCollectives none;
  return none;
}

ExpertCollectives::ExpertCollectives(params::RankExecs& execs, tensor::Arena& staging, const plan::BatchPlan& batch,
                                     const plan::MicroShape& shape, std::int64_t hop_bytes)
    : share_(shape.experts), sequences_(shape.experts.sends_rows() ? shape.batch : 0),
      buffer_(shape.expert_capacity_buffer), uneven_(batch.ever_uneven()) {
  if (execs.world.topology.size(plan::Axis::expert) == 1) return;
  execs_ = &execs;
  if (hop_bytes == 0) return;
  for (auto* hop : {&first_hop_, &second_hop_}) *hop = staging.allocate(base::DType::u8, {hop_bytes});
}

comm::NodeHops ExpertCollectives::hops() const {
  auto& world = execs_->world;
  return {world.group({plan::Axis::expert_inner}), world.group({plan::Axis::expert_outer}), first_hop_, second_hop_};
}

template <class Call> tensor::Event ExpertCollectives::cross(const Call& call, bool followed) const {
  auto& communication = execs_->communication;
  // With an uneven last accumulation step, ranks with an empty micro-batch make no tensor-parallel collectives that
  // transfers could follow. So waiting transfers are all issued before this call.
  if (uneven_) execs_->transfers.issue_all();
  communication.wait(execs_->compute.record());
  call(communication);
  auto done = communication.record();
  if (followed) execs_->transfers.let_some_follow();
  return done;
}

tensor::Event ExpertCollectives::begin_swap(base::View mine, base::View theirs, bool followed) const {
  TRAINYARD_ASSERT(mine.count() == theirs.count() && mine.count() % ranks() == 0 && mine.dense() && theirs.dense(),
                   "{} elements for {} in parts for {} ranks", mine.count(), theirs.count(), ranks());
  const std::vector<std::int64_t> counts(base::size(ranks()), mine.count() / ranks());
  return cross(
      [&](auto& exec) {
        if (in_nodes()) comm::all_to_all(hops(), exec, mine, theirs);
        else group().all_to_all(exec, mine.reshaped({mine.count()}), counts, theirs.reshaped({theirs.count()}), counts);
      },
      followed);
}

tensor::Event ExpertCollectives::begin_swap(const std::vector<base::View>& mine,
                                            const std::vector<base::View>& theirs) const {
  const auto all = base::size(ranks());
  TRAINYARD_ASSERT(mine.size() == theirs.size() && mine.size() % all == 0, "{} views for {} of {} ranks", mine.size(),
                   theirs.size(), all);
  return cross([&](auto& exec) {
    if (in_nodes()) return comm::all_to_all(hops(), exec, mine, theirs);
    std::vector<comm::Transfer> transfers;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto peer = static_cast<int>(i % all);
      if (peer == rank()) {
        tensor::copy(exec, mine[i], theirs[i]);
        continue;
      }
      transfers.push_back({comm::Transfer::Kind::receive, peer, theirs[i]});
      transfers.push_back({comm::Transfer::Kind::send, peer, mine[i]});
    }
    comm::exchange_as(group(), exec, "all_to_all", transfers);
  });
}

void ExpertCollectives::agree_on_most(base::View number) const {
  auto& communication = execs_->communication;
  communication.wait(execs_->compute.record());
  group().all_reduce(communication, number, comm::Reduction::max);
  execs_->join(communication.record());
}

void ExpertCollectives::count_rounds(std::int64_t layer, const plan::FurtherRounds& further,
                                     std::int64_t rounds) const {
  auto& all = counted_->further;
  if (std::ssize(all) <= layer) all.resize(base::size(layer) + 1);
  auto& of = base::at(all, layer);
  of.forward += further.forward, of.backward += further.backward, of.again += further.again;
  counted_->most = std::max(counted_->most, rounds);
}

}  // namespace trainyard::model
