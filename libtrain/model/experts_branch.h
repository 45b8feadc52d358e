// Experts: each token goes to the experts that the gate chooses, and their results are added up with weights.
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
  bool works_for_others() const override;
  void forward_for_others(Step& step, const SavedSet& tensors) const override;
  void backward_for_others(Step& step, const SavedSet& tensors) const override;

 private:
  kernels::Gate gate_of(const Step& step) const;
  static kernels::GateChoice choice_of(const SavedSet& tensors);
  // A run of this rank's experts, with the rows that all ranks send to them. It names rows of "dispatched" and of the
  // experts' tensors, groups of "received", and experts of this rank.
  struct Chunk {
    std::int64_t rows = 0, first_row = 0, groups = 0, first_group = 0, experts = 0, first_expert = 0;
  };
  std::vector<Chunk> chunks_of(const SavedSet& tensors) const;
  // One view of a chunk for each expert-parallel rank, with `rows_each` rows for each expert. by_ranks: `whole` lies
  // rank by rank, as this rank's tokens have it. by_chunks: `whole` lies chunk by chunk, as the experts have it.
  std::vector<base::View> by_ranks(const Step& step, const Chunk& chunk, base::View whole,
                                   std::int64_t rows_each) const;
  std::vector<base::View> by_chunks(const Step& step, const Chunk& chunk, base::View whole,
                                    std::int64_t rows_each) const;
  template <class Borrowed> ExpertParameters parameters_of(const Borrowed& borrowed, const Chunk& chunk) const;
  SavedSet tensors_of(const Step& step, const SavedSet& tensors, const Chunk& chunk) const;  // of the chunk's experts
  base::View worked_on(const SavedSet& tensors) const;  // groups of rows that this rank's experts compute
  // This tensor-parallel rank's part of "results", "sources" and "groups": the part of its experts.
  static base::View own_results(const Step& step, const SavedSet& tensors);
  static base::View own_sources(const Step& step, const SavedSet& tensors);
  base::View own_groups(const Step& step, const SavedSet& tensors) const;
  void dispatch(Step& step, const SavedSet& tensors, base::View normed, base::View rows) const;
  // The send buffer for rows that go to other ranks, in scratch of the caller's scope; empty if none do.
  base::View crossing(Step& step, const SavedSet& tensors) const;
  void forward_through_experts(Step& step, const SavedSet& tensors, base::View sent) const;
  void run_experts(Step& step, const params::Lease& own, const SavedSet& tensors, const Chunk& chunk,
                   base::View made) const;
  void input_gradients_of(Step& step, const params::Lease& own, const SavedSet& tensors, const Chunk& chunk,
                          base::View dy, base::View dx) const;
  // Weight gradients from the rows of one source (an expert-parallel rank): for a chunk, and for all chunks, source by
  // source.
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
  std::int64_t record_;  // row of Step::gate_records
  ExpertRounds rounds_;
};

}  // namespace trainyard::model
