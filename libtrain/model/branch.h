// Branch: a function of the normed hidden states whose output a layer adds to the hidden states: attention,
// feed-forward.
#pragma once

#include "libtrain/model/dropout_site.h"
#include "libtrain/model/saved.h"
#include "libtrain/plan/blocks/block_kind.h"

#include <cstdint>
#include <memory>

namespace trainyard::model {

// The gradient of a branch's output: the gradient of the hidden states, through the residual dropout if there is one.
// Where a norm is behind the branch, it is the gradient of what that norm reads.
class OutputGradient {
 public:
  OutputGradient(const DropoutSite& residual, base::View stream) : residual_(&residual), stream_(stream) {}
  explicit OutputGradient(base::View gradient) : stream_(gradient) {}
  bool dropped(const Step& step) const { return residual_ != nullptr && residual_->active(step); }
  // The gradient, [own rows, hidden]: the hidden states' gradient itself. With dropout it is written to `place`, of the
  // same shape, which is returned.
  base::View in(const Step& step, base::View place) const {
    if (!dropped(step)) return stream_;
    kernels::dropout_backward(step.exec, residual_->of(step), stream_, place);
    return place;
  }
  // Writes it to `place`.
  void copied(const Step& step, base::View place) const {
    if (in(step, place).data != place.data) tensor::copy(step.exec, stream_, place);
  }
  // The gradient of all rows of the micro-batch, gathered with sequence parallelism: `place` is [n, hidden].
  base::View all_rows(const Step& step, base::View place) const {
    if (!step.collectives->sequence_parallel()) return in(step, place);
    const auto n = step.micro.batch() * step.micro.sequence();
    const auto mine = place.row_range(step.collectives->first_row(n), step.collectives->own_rows(n));
    return step.collectives->all_rows(in(step, mine), place);
  }

 private:
  const DropoutSite* residual_ = nullptr;
  base::View stream_;
};

// A branch is made from its description, a plan::BranchKind, and keeps to it. Tensor-parallel ranks divide what the
// kind says. The output is the sum over these ranks, for this rank's rows of the hidden states. The layer holds the
// lease and the gradients of the flat group; indices come from plan::index_of. `tensors` has the norm's tensors
// ("normed" is the input) and the kind's.
//
// `output` is empty if nobody reads it and the kind says skips_unread_output (plan::BranchKind). forward then fills the
// tensors with the same calls, and leaves out all calls that would follow. Otherwise there is always an output, which
// forward fills.
class Branch {
 public:
  virtual ~Branch() = default;
  // Scratch that a call allocates from step.exec.scratch() is released by the layer, which holds a tensor::ArenaScope
  // around each call of a branch. A branch that allocates more than once opens scopes of its own to use less.
  virtual void forward(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View output) const = 0;
  // Called with Recompute::selective before backward, if the kind marks tensors plan::Stays::unless_selective.
  // Recomputes these tensors to the same bits from the tensors that stay; "normed" is filled already. By default a kind
  // marks none.
  virtual void make_again(Step&, const SavedSet&) const {}
  // Overwrites d_normed [own rows, hidden], which may serve as scratch before, and every gradient of the branch's
  // parameters that `grads` wants.
  virtual void backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                        const OutputGradient& gradient, const SavedSet& tensors, base::View d_normed) const = 0;
  // The two halves of backward, for a kind that says makes_weight_gradients_apart (plan::BranchKind). d_output, the
  // gradient of the branch's output [own rows, hidden], is the same in both. The first leaves in the tensors what else
  // the second needs. It may overwrite all tensors but "input".
  virtual void input_gradients(Step& /*step*/, const params::Lease& /*lease*/, base::View /*d_output*/,
                               const SavedSet& /*tensors*/, base::View /*d_normed*/) const {
    TRAINYARD_ASSERT(false, "input gradients apart, of a branch whose kind says that it can");
  }
  virtual void weight_gradients(Step& /*step*/, const params::Grads& /*grads*/, base::View /*d_output*/,
                                const SavedSet& /*tensors*/) const {
    TRAINYARD_ASSERT(false, "weight gradients apart, of a branch whose kind says that it can");
  }
};

// What a branch is made from.
struct BranchSpec {
  const plan::ModelConfig& model;     // as the layer sees it (plan/spec/layer_model.h)
  const plan::FlatGroup& flat_group;  // the layer's
  std::int64_t layer;                 // number of the layer
  // The branch's own flat group, if its kind has one (plan::BranchKind::own_flat_group), and its occurrence. The branch
  // leases it in forward, and leases and commits it in backward.
  const plan::FlatGroup* own = nullptr;
  plan::Occurrence own_occurrence = {};
  const plan::FlatGroup* adapter = nullptr;  // the layer's adapters, if it has some (model/adapters.h)
  plan::ExpertShare experts = {};            // of the layer's experts, what the rank holds
};

}  // namespace trainyard::model
