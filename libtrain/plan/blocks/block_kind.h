// BlockKind, BranchKind: the description of one kind of block, stated once: parameters, memory, FLOPs, leases. The
// planner sums these descriptions, and the block itself is made from its description.
#pragma once

#include "libtrain/plan/blocks/declaration.h"
#include "libtrain/plan/blocks/flat_group.h"
#include "libtrain/plan/blocks/group_call.h"
#include "libtrain/plan/blocks/saved_tensor.h"
#include "libtrain/plan/blocks/work.h"
#include "libtrain/plan/grid/expert_share.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// An occurrence of a flat group in a block. Either the block owns the group (`own`: its index in
// BlockKind::flat_groups), or another block owns it (`borrowed`: its name).
struct FlatGroupOccurrence {
  int own = -1;
  std::string borrowed;
};

// The leases and commits of one block in order, each as an index into BlockKind::occurrences. The block must follow
// this order exactly, because stores fetch weights ahead along it.
struct BlockAccesses {
  struct Step {
    Access::Kind kind;
    int occurrence;
  };
  std::vector<int> forward, evaluation;  // leases of a forward pass in training, and in evaluation
  std::vector<Step> backward;
};

// A block that the hidden states pass through: the embedding, a layer, the head. It owns flat groups. Every number is
// for one block, one rank and one micro-batch. The arithmetic follows the order of allocations in the block itself, so
// the arenas' high-water marks equal these numbers exactly.
class BlockKind {
 public:
  virtual ~BlockKind() = default;

  // The flat groups of block number `index` of its Part.
  virtual std::vector<FlatGroup> flat_groups(const ModelConfig& model, std::int64_t index) const = 0;
  // The same flat groups as a rank holds them that has this share of the block's experts. By default it holds them
  // whole.
  virtual std::vector<FlatGroup> held_flat_groups(const ModelConfig& model, std::int64_t index,
                                                  const ExpertShare& experts) const;
  // By default each of the block's own flat groups occurs once. It is leased in forward, and leased and committed in
  // backward.
  virtual std::vector<FlatGroupOccurrence> occurrences(const ModelConfig& model) const;
  virtual BlockAccesses accesses(const ModelConfig& model) const;

  // Bytes on the activation stack: what stays between forward and backward, and the maximum of an evaluation.
  virtual std::int64_t saved_bytes(const ModelConfig& model, const MicroShape& shape) const = 0;
  virtual std::int64_t evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const = 0;
  // The same for a layer with Recompute::selective (model::Step::recompute). By default the layer keeps all that it
  // saves.
  virtual StackBytes selective_bytes(const ModelConfig& model, const MicroShape& shape) const;
  // For an evaluation with Recompute::selective: the maximum of what would stay in training, and of what would not.
  virtual StackBytes selective_evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const;
  // Whether the block can compute weight gradients apart from input gradients (MicroShape::weight_gradients). If so,
  // input_gradients makes the leases of backward, and weight_gradients makes its commits. If not, input_gradients does
  // the whole backward.
  virtual bool makes_weight_gradients_apart(const ModelConfig&) const { return false; }
  // The maximum of scratch at one time. With weight gradients apart, backward is the larger of its two halves.
  virtual std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const = 0;
  virtual std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const = 0;

  // Model FLOPs of forward, for each token. Backward takes twice as many.
  virtual double forward_flops(const ModelConfig& model, const Lengths& lengths) const = 0;
  // FLOPs of the second forward of a recomputed block, which only makes what the block saves. By default all of
  // forward.
  virtual double recompute_flops(const ModelConfig& model, const Lengths& lengths) const;
  // The part of twice forward's FLOPs that backward leaves out, because weights are frozen.
  virtual double frozen_flops(const ModelConfig&, const Lengths&) const { return 0; }
  // Forward and backward, without recomputation.
  double training_flops(const ModelConfig& model, const Lengths& lengths) const {
    return 3 * forward_flops(model, lengths) - frozen_flops(model, lengths);
  }
  // The part of backward's FLOPs that weight gradients take when they are computed apart.
  virtual double apart_flops(const ModelConfig&, const Lengths&) const { return 0; }
  // The products and bytes of one micro-batch on a rank, from which its time follows. By default one product of
  // forward_flops, divided among tensor-parallel ranks, and its two gradients.
  virtual BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const;

  // Whether the block supports tensor parallelism. Its parameters are then sharded or equal on all ranks. It works on
  // the rank's rows of hidden states (MicroShape::own_rows), and makes the sums and collectives of tensor parallelism.
  // A kind that returns false runs only with --tensor-parallel 1.
  virtual bool shared_by_tensor_ranks() const { return false; }
  // The tensor-parallel collectives of one micro-batch. Training counts forward, backward and what recomputation
  // repeats; an evaluation counts forward. By default none.
  virtual std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                              Recompute recompute) const;
  // The same for the collectives among ranks that hold different experts.
  virtual std::vector<GroupCall> expert_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                              Recompute recompute) const;
};

// A branch of a layer, such as attention or feed-forward: a function of the normed hidden states whose result is added
// to the hidden states. The layer owns the branch's norm, its residual addition, and the flat group in which the branch
// declares its parameters.
class BranchKind {
 public:
  virtual ~BranchKind() = default;

  // The prefix of its parameters and dropout sites: "ffn" gives the norm "ffn_norm" and the site "ffn_residual".
  virtual std::string prefix() const = 0;
  virtual double residual_dropout(const ModelConfig&) const { return 0; }
  // Whether the branch supports tensor parallelism: its parameters are sharded, and its output is the sum over the
  // tensor-parallel ranks (model/shared_sum.h). A branch that returns false runs only with --tensor-parallel 1.
  virtual bool shared_by_tensor_ranks() const { return false; }
  virtual void declare(Declaration& flat_group) const = 0;
  // A second flat group, beside the layer's, which the branch itself leases and commits. By default there is none. At
  // most one branch of a layer has one. Its name begins with `layer`. It is as a rank holds it that has this share of
  // the layer's experts.
  virtual bool has_own_flat_group() const { return false; }
  virtual FlatGroup own_flat_group(const ModelConfig&, const std::string& /*layer*/,
                                   const ExpertShare& /*experts*/) const {
    return {};
  }

  // Saved tensors. Depending on Stays they live from forward to backward, or only while one of the two runs. In an
  // evaluation they live until forward ends.
  virtual std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, Pass pass) const = 0;
  // Scratch beside the layer's own buffers. These hold the branch's output in forward, and the gradient of its input in
  // backward.
  virtual std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const = 0;
  virtual std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const = 0;
  virtual double forward_flops(const ModelConfig& model, const Lengths& lengths) const = 0;
  // As BlockKind::work, without the layer's norm and residual addition.
  virtual BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const;

  // The tensor-parallel collectives of one rank for one micro-batch, as in BlockKind::tensor_calls. By default, forward
  // gathers the rows of its input and adds up its output. Backward gathers the rows of the output's gradient and again
  // of the input, and adds up the input's gradient. A layer that runs forward again repeats the gather, and repeats the
  // sum if the output is read.
  enum class Again { output, all_but_output };
  virtual std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                              Recompute recompute, Again again) const;
  // The collectives of one rank for one micro-batch with the ranks that hold other experts (Axis::expert): forward,
  // which recomputation repeats, and backward. By default none.
  virtual std::vector<GroupCall> expert_calls(const ModelConfig&, const MicroShape&, Pass, Recompute) const {
    return {};
  }

  // Whether weight gradients can be computed apart: the branch then leaves in its tensors what they need
  // (model::Branch). A layer computes weight gradients apart if all its branches can.
  virtual bool makes_weight_gradients_apart() const { return false; }
  // The scratch of the two halves, as backward_workspace_bytes. Called only if weight gradients can be computed apart.
  virtual std::int64_t input_gradients_workspace_bytes(const ModelConfig&, const MicroShape&) const { return 0; }
  virtual std::int64_t weight_gradients_workspace_bytes(const ModelConfig&, const MicroShape&) const { return 0; }
  virtual double apart_flops(const ModelConfig&) const { return 0; }
  // FLOPs of forward's products with weights that adapters freeze.
  virtual double frozen_flops(const ModelConfig&) const { return 0; }

  // Whether the branch can skip its output. A recomputed layer asks this of its last branch, whose output nothing reads
  // when forward runs again. The branch then gets an empty output (model::Branch) and skips its sum over
  // tensor-parallel ranks, too. By default it does not.
  virtual bool skips_unread_output() const { return false; }
  // The part of forward_flops that computes the output. Called only if the branch can skip it.
  virtual double output_flops(const ModelConfig&) const { return 0; }
};

}  // namespace trainyard::plan
