// ExpertEdges: where rows cross between the ranks that share the experts of a layer.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/params/context.h"

#include <vector>

namespace trainyard::model {

// The ranks that hold different experts (plan::Axis::expert). Each sends every other the rows that its tokens have
// there, and gets what these made of them back by the same call: it is its own adjoint (Lepikhin et al. 2020, "GShard",
// section 3.3).
class ExpertEdges {
 public:
  ExpertEdges() = default;                              // one rank
  explicit ExpertEdges(params::StoreContext& context);  // of the context's world

  int ranks() const { return context_ == nullptr ? 1 : group().size(); }
  // `mine` has an equal part for each of the ranks, in their order; `theirs` gets what they have for this one, in the
  // same order. Dense, of one size and dtype; in the order of the context's compute Exec. Collective; several ranks
  // only.
  void swap(base::View mine, base::View theirs) const;
  // The same in parts that lie anywhere: mine[i * ranks() + r] goes to rank r and is its theirs[i * ranks() + this
  // rank]; of a part all are of one size. It is there for the compute Exec once `wait` was given what this returns;
  // until then the compute Exec may work on other things.
  tensor::Event begin_swap(const std::vector<base::View>& mine, const std::vector<base::View>& theirs) const;
  void wait(const tensor::Event& event) const { context_->join(event); }

 private:
  template <class Call> tensor::Event cross(const Call& call) const;
  comm::Communicator& group() const { return context_->world.group({plan::Axis::expert}); }
  params::StoreContext* context_ = nullptr;
};

const ExpertEdges& own_experts();  // trivial edges

}  // namespace trainyard::model
