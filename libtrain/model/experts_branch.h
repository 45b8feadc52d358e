// Experts: each token goes to those that the gate chooses, and what they make of it comes back weighted.
#pragma once

#include "kernels/gate/gate.h"
#include "libtrain/model/branch.h"
#include "libtrain/model/expert.h"
#include "libtrain/model/expert_rounds.h"
#include "libtrain/model/feed_forward_branch.h"

#include <memory>
#include <optional>
#include <vector>

namespace trainyard::model {

// output = sum over the choices that kept a place of weight * expert(normed), and what a feed-forward part beside the
// experts makes of it: added (shared experts), or mixed as (c0, c1) = softmax(mix normed) say (residual). The gate
// group is the micro-batch. Described by plan::ExpertsKind.
//
// Where ranks share the experts, rows stand in slots of one size, so that every rank sends every other as much: those
// of its tokens to the ranks that have their experts, and what these made of them back; in backward likewise. A rank's
// experts then work on the rows of all ranks, those of each by itself, and make gradients for each. Tensor ranks of a
// replica have all rows of its tokens, and deal out the experts among them: all choose for all tokens, and have the
// gate's gradients alike; each has its experts work, and then all get all results. Without a capacity data ranks make
// rounds in place of slots (model/expert_rounds.h).
//
// Backward adds the gradients of the balance and z losses at the logits, times the target tokens of the micro-batch;
// choices and places are constants of it.
class ExpertsBranch : public Branch {
 public:
  explicit ExpertsBranch(const BranchSpec& spec);
  void forward(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View output) const override;
  void make_again(Step& step, const SavedSet& tensors) const override;
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, const OutputGradient& gradient,
                const SavedSet& tensors, base::View d_normed) const override;
  bool works_for_others() const override;
  void forward_for_others(Step& step, const SavedSet& tensors) const override;
  void backward_for_others(Step& step, const SavedSet& tensors) const override;

 private:
  kernels::Gate gate_of(const Step& step) const;
  static kernels::GateChoice choice_of(const SavedSet& tensors);
  // A run of this rank's experts, for the tokens of all ranks that send it some: which rows of "dispatched" and of the
  // experts' tensors, which groups of "received", which of the rank's experts.
  struct Chunk {
    std::int64_t rows = 0, first_row = 0, groups = 0, first_group = 0, experts = 0, first_expert = 0;
  };
  std::vector<Chunk> chunks_of(const SavedSet& tensors) const;
  // A view of a chunk for each rank that shares the experts, `flat_group` rows for an expert: of `whole` where it lies
  // rank by rank, as this rank's tokens have it, and where it lies chunk by chunk, as the experts have it.
  std::vector<base::View> by_ranks(const Step& step, const Chunk& chunk, base::View whole,
                                   std::int64_t flat_group) const;
  std::vector<base::View> by_chunks(const Step& step, const Chunk& chunk, base::View whole,
                                    std::int64_t flat_group) const;
  template <class Borrowed> ExpertParameters parameters_of(const Borrowed& borrowed, const Chunk& chunk) const;
  SavedSet tensors_of(const Step& step, const SavedSet& tensors, const Chunk& chunk) const;  // of its experts
  base::View worked_on(const SavedSet& tensors) const;  // the groups of rows that this rank's experts work on
  // Of this tensor rank: the results of its experts, "sources" and "groups" of these.
  static base::View own_results(const Step& step, const SavedSet& tensors);
  static base::View own_sources(const Step& step, const SavedSet& tensors);
  base::View own_groups(const Step& step, const SavedSet& tensors) const;
  void dispatch(Step& step, const SavedSet& tensors, base::View normed, base::View rows) const;
  // Where rows go to other ranks: the place of those on their way, of the caller's scope.
  base::View crossing(Step& step, const SavedSet& tensors) const;
  void forward_through_experts(Step& step, const SavedSet& tensors, base::View sent) const;
  void run_experts(Step& step, const params::Lease& own, const SavedSet& tensors, const Chunk& chunk,
                   base::View made) const;
  void input_gradients_of(Step& step, const params::Lease& own, const SavedSet& tensors, const Chunk& chunk,
                          base::View dy, base::View dx) const;
  // Those of the rows of one source, a rank that shares the experts: of a chunk, and of all, source by source.
  void weight_gradients_of(Step& step, const params::Grads& grads, const SavedSet& tensors, const Chunk& chunk,
                           base::View dy, int source) const;
  void weight_gradients_of_all(Step& step, const SavedSet& tensors, base::View dy) const;
  int sources(const Step& step) const;
  void forward_in_rounds(Step& step, const SavedSet& tensors) const;
  void backward_in_rounds(Step& step, const SavedSet& tensors) const;
  void backward_through_experts(Step& step, const SavedSet& tensors) const;
  static void gather_results(Step& step, const SavedSet& tensors);
  base::View gate_input(Step& step, base::View normed) const;
  void choose(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View normed) const;
  void gate_backward(Step& step, const params::Lease& lease, const params::Grads& grads, const SavedSet& tensors,
                     base::View d_logits, base::View d_mix, base::View d_normed) const;

  plan::ModelConfig model_;  // as the layer sees it
  std::int64_t count_;       // experts
  plan::Occurrence own_;
  std::uint64_t noise_site_, overflow_site_;
  int gate_weight_, gate_bias_, mix_weight_;
  std::unique_ptr<Expert> experts_;
  std::optional<FeedForwardBranch> beside_;
  std::int64_t record_;  // the row of Step::gate_records
  ExpertRounds rounds_;
};

}  // namespace trainyard::model
