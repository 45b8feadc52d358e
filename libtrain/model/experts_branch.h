// Experts: each token goes to the experts that the gate chooses, and their results are added up with weights.
#pragma once

#include "kernels/gate/gate.h"
#include "libtrain/model/branch.h"
#include "libtrain/model/expert.h"
#include "libtrain/model/expert_dispatch.h"
#include "libtrain/model/feed_forward_branch.h"

#include <memory>
#include <optional>
#include <vector>

namespace trainyard::model {

// output = sum over the choices that kept a place of weight * expert(normed). A feed-forward part beside the experts,
// if there is one, is added (shared experts) or mixed by (c0, c1) = softmax(mix normed) (residual). The gate group is
// the micro-batch. Described by plan::ExpertsKind.
//
// With expert parallelism, rows stand in slots of one size, so that every rank sends every other rank as much. A rank
// sends the rows of its tokens to the ranks that hold their experts, and these send the results back. Backward does the
// same with gradients. A rank's experts compute the rows of all ranks, each rank's by themselves, and make weight
// gradients for each rank.
// Tensor-parallel ranks of a replica have all rows of its tokens, and divide the experts. All of them choose for all
// tokens, so they have equal gradients of the gate. Each computes its own experts, and then all gather all results.
// Without a capacity, data-parallel ranks make dispatch rounds in place of slots (model/expert_rounds.h).
//
// Backward adds the gradients of the balance loss and the z loss at the logits, times the target tokens of the
// micro-batch. It treats choices and places as constants.
class ExpertsBranch : public Branch {
 public:
  explicit ExpertsBranch(const BranchSpec& spec);
  void forward(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View output) const override;
  void make_again(Step& step, const SavedSet& tensors) const override;
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, const OutputGradient& gradient,
                const SavedSet& tensors, base::View d_normed) const override;

 private:
  kernels::Gate gate_of(const Step& step) const;
  static kernels::GateChoice choice_of(const SavedSet& tensors);
  template <class Borrowed> ExpertParameters parameters_of(const Borrowed& borrowed, const ExpertChunk& chunk) const;
  SavedSet tensors_of(const Step& step, const SavedSet& tensors,
                      const ExpertChunk& chunk) const;  // of the chunk's experts
  void dispatch(Step& step, const SavedSet& tensors, base::View normed, base::View rows) const;
  class Work;  // what a dispatch asks of the branch
  const ExpertDispatch& dispatch_in(plan::Pass pass) const {
    return pass == plan::Pass::train ? *training_ : *evaluation_;
  }
  void forward_through_experts(Step& step, const SavedSet& tensors, base::View sent) const;
  void backward_through_experts(Step& step, const SavedSet& tensors) const;
  static void gather_results(Step& step, const SavedSet& tensors);
  base::View gate_input(Step& step, base::View normed) const;
  void choose(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View normed) const;
  struct GateGradients {
    base::View d_logits, d_mix;  // d_mix: empty without a mix
    base::View d_normed;
  };
  void gate_backward(Step& step, const params::Lease& lease, const params::Grads& grads, const SavedSet& tensors,
                     const GateGradients& of) const;

  plan::ModelConfig model_;  // as the layer sees it
  plan::ExpertShare share_;
  std::int64_t count_;  // experts
  plan::Occurrence own_;
  std::uint64_t noise_site_, overflow_site_;
  int gate_weight_, gate_bias_, mix_weight_;
  std::unique_ptr<Expert> experts_;
  std::optional<FeedForwardBranch> beside_;
  std::int64_t record_;  // row of Step::gate_records
  std::unique_ptr<ExpertDispatch> training_, evaluation_;
};

}  // namespace trainyard::model
