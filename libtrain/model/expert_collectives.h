// ExpertCollectives: the all-to-alls of a layer between its expert-parallel ranks.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/comm/node_hops.h"
#include "libtrain/params/rank_execs.h"
#include "libtrain/plan/blocks/expert_rounds.h"
#include "libtrain/plan/dispatch_rounds.h"
#include "libtrain/plan/grid/batch.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace trainyard::model {

// The ranks that hold different experts of a layer (plan::Axis::expert). Each rank sends every other rank the rows of
// its tokens that go to the experts there. The same call returns the results: an all-to-all is its own adjoint
// (Lepikhin et al. 2020, "GShard", section 3.3). Where the world groups these ranks by node
// (plan::Axis::expert_inner), each all-to-all takes two hops through two buffers. One pair of buffers is enough, since
// calls are in one order.
class ExpertCollectives {
 public:
  ExpertCollectives() = default;  // one rank
  // On the world of `execs`. batch: of the largest step; an uneven last accumulation step changes when transfers are
  // issued. shape: of micro-batches that are not empty, with what this rank holds of each layer's experts. hop_bytes:
  // plan::expert_hop_bytes, for which two buffers are taken from `staging`.
  ExpertCollectives(params::RankExecs& execs, tensor::Arena& staging, const plan::BatchPlan& batch,
                    const plan::MicroShape& shape, std::int64_t hop_bytes);

  // As in plan::RankShare.
  const plan::ExpertShare& share() const { return share_; }
  std::int64_t tokens(std::int64_t sequence) const { return sequences_ * sequence; }  // in sequences of this length
  std::int64_t buffer() const { return buffer_; }

  int ranks() const { return execs_ == nullptr ? 1 : group().size(); }
  // All-to-all: `mine` has an equal part for each of the ranks, in their order. `theirs` gets what each rank has for
  // this one, in the same order. Both are dense, of one size and dtype. Runs in the order of the rank's compute
  // Exec. Collective; several ranks only. `followed`: waiting transfers of parameters and gradients may follow. False
  // where other groups of ranks may not make this call.
  void swap(base::View mine, base::View theirs, bool followed = true) const {
    wait(begin_swap(mine, theirs, followed));
  }
  // Begins the same. The compute Exec sees `theirs` once `wait` was given the returned event, and may do other work
  // until then.
  tensor::Event begin_swap(base::View mine, base::View theirs, bool followed = true) const;
  // The same with parts anywhere in memory: mine[i * ranks() + r] goes to rank r and is its theirs[i * ranks() + this
  // rank]. On all ranks the views of one i have one size.
  tensor::Event begin_swap(const std::vector<base::View>& mine, const std::vector<base::View>& theirs) const;
  void wait(const tensor::Event& event) const { execs_->join(event); }
  // All-reduce of i32 [1] in place, with the maximum over the ranks.
  void agree_on_most(base::View number) const;
  int rank() const { return execs_ == nullptr ? 0 : group().rank(); }

  // Counts one pass of a layer: `further`, its dispatch rounds beyond the first, and `rounds`, how many rounds its rows
  // take. `layer`: its number among the layers with experts.
  void count_rounds(std::int64_t layer, const plan::FurtherRounds& further, std::int64_t rounds) const;
  const std::vector<plan::FurtherRounds>& further_rounds() const { return counted_->further; }
  // The most rounds of a layer since clear_most_rounds; 0: none.
  std::int64_t most_rounds() const { return counted_->most; }
  void clear_most_rounds() { counted_->most = 0; }
  void clear_rounds() { *counted_ = {}; }

 private:
  template <class Call> tensor::Event cross(const Call& call, bool followed = true) const;
  struct Counted {
    std::vector<plan::FurtherRounds> further;
    std::int64_t most = 0;
  };
  comm::Communicator& group() const { return execs_->world.group({plan::Axis::expert}); }
  bool in_nodes() const { return execs_->world.topology.size(plan::Axis::expert_inner) > 1; }
  comm::NodeHops hops() const;
  params::RankExecs* execs_ = nullptr;
  plan::ExpertShare share_;
  std::int64_t sequences_ = 0, buffer_ = 0;
  bool uneven_ = false;                // has the last accumulation step empty micro-batches on some ranks?
  base::View first_hop_, second_hop_;  // staging
  std::unique_ptr<Counted> counted_ = std::make_unique<Counted>();
};

const ExpertCollectives& own_experts();  // collectives of one rank

}  // namespace trainyard::model
