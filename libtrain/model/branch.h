// Branch: a function of the normed residual stream whose output a layer adds to the residual stream: attention,
// feed-forward.
#pragma once

#include "libtrain/model/dropout_site.h"
#include "libtrain/model/saved.h"
#include "libtrain/plan/block_kind.h"

#include <cstdint>
#include <memory>

namespace trainyard::model {

// The gradient of a branch's output: that of the residual stream, through the dropout of the residual where there is
// one.
class OutputGradient {
 public:
  OutputGradient(const DropoutSite& residual, base::View stream) : residual_(residual), stream_(stream) {}
  bool dropped(const Step& step) const { return residual_.active(step); }
  // Where it is, [stream rows, hidden]: the residual stream's gradient itself, or with dropout `place`, of the same
  // shape, which it is written to.
  base::View in(const Step& step, base::View place) const {
    if (!dropped(step)) return stream_;
    kernels::dropout_backward(step.exec, residual_.of(step), stream_, place);
    return place;
  }
  // The same of all rows of the micro-batch: `place` is [n, hidden].
  base::View all_rows(const Step& step, base::View place) const {
    if (!step.collectives->sequence_parallel()) return in(step, place);
    const auto n = step.micro.batch() * step.micro.sequence();
    const auto mine = place.row_range(step.collectives->first_row(n), step.collectives->own_rows(n));
    return step.collectives->all_rows(in(step, mine), place);
  }

 private:
  const DropoutSite& residual_;
  base::View stream_;
};

// Made from its description, a plan::BranchKind, and keeps to it. Ranks that share the layer share what the kind says;
// the output is that of all ranks together, of this rank's rows of the stream. The layer holds the lease and the
// gradients of the flat group; indices are plan::index_of. `tensors` are those of the norm ("normed" is the input) and
// of the kind.
//
// `output` is empty where nobody reads it, if the kind says that it understands that
// (plan::BranchKind::skips_unread_output): forward then fills the tensors, by the same calls, and makes none of those
// that would follow. Else there is always one, which forward fills.
class Branch {
 public:
  virtual ~Branch() = default;
  virtual void forward(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View output) const = 0;
  // With Recompute::selective, before backward and where the kind marks tensors plan::Stays::unless_selective: fills
  // these again, to the same bits, from those that stay; "normed" is there. By default a kind marks none.
  virtual void make_again(Step&, const SavedSet&) const {}
  // Overwrites d_normed [stream rows, hidden], which may serve as scratch before that, and every gradient of the
  // branch's parameters.
  virtual void backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                        const OutputGradient& gradient, const SavedSet& tensors, base::View d_normed) const = 0;
  // Has it experts that tokens of other ranks go to? Then these take the place of forward and backward where this rank
  // has no micro-batch but others may have one (Step::absent): it sends no rows, works on those that come, and sends
  // them back. The branch's own flat group is leased and committed as ever; make_again comes before, with step.absent.
  virtual bool works_for_others() const { return false; }
  virtual void forward_for_others(Step&, const SavedSet&) const {}
  virtual void backward_for_others(Step&, const SavedSet&) const {}
  // Where the kind says that weight gradients can be made apart (plan::BranchKind::makes_weight_gradients_apart), both
  // in place of backward. d_output, the gradient of the branch's output [stream rows, hidden], is the same in both;
  // what else the second needs the first leaves in the tensors, all but "input" are the branch's.
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
  const plan::ModelConfig& model;     // as the layer sees it (plan/layer_model.h)
  const plan::FlatGroup& flat_group;  // of the layer
  std::int64_t layer;                 // its number
  // The branch's own flat group, where its kind says that it has one (plan::BranchKind::own_flat_group), and its
  // occurrence: the branch leases it in forward, and leases and commits it in backward.
  const plan::FlatGroup* own = nullptr;
  plan::Occurrence own_occurrence = {};
};

}  // namespace trainyard::model
