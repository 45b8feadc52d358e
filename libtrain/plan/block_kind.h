// BlockKind, BranchKind: all that is predicted of one kind of block, said once: parameters, memory, FLOPs, leases. What
// the planner sums and what the block is made from.
#pragma once

#include "libtrain/plan/declaration.h"
#include "libtrain/plan/micro_shape.h"
#include "libtrain/plan/model_config.h"
#include "libtrain/plan/flat_group.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::plan {

// Does a tensor stay between forward and backward? unless_selective: with Recompute::selective it does not, and
// backward makes it again to the same bits from those that stay and the weights, by no product and no call to other
// ranks.
enum class Stays { always, unless_selective };

// A tensor that a block pushes on the activation stack, in push order. An arena hands it out at a multiple of 64 bytes.
struct SavedTensor {
  const char* name;  // a literal
  base::DType dtype;
  std::int64_t rows, cols;  // rows 0: one dim
  Stays stays = Stays::always;
  std::int64_t bytes() const;  // rounded up to 64
};
std::int64_t total_bytes(const std::vector<SavedTensor>& tensors);
std::vector<SavedTensor> only(std::vector<SavedTensor> tensors, Stays stays);

// On the activation stack: between forward and backward, and at most while a block runs; of what is not kept the most
// at one time, for which micro-batches in flight have one place (model::Saved::Passing).
struct StackBytes {
  std::int64_t kept, most, passing = 0;
};

// Collective calls of one operation and size that a rank makes in a group of ranks that share a block.
struct GroupCall {
  const char* operation;  // a literal, as the ledger names it
  base::DType type;
  std::int64_t bytes;  // of the whole that is gathered or reduced, as plan::SizedCalls counts it
  std::int64_t calls;
};

// An occurrence of a flat group in a block: of its own, by its place in BlockKind::flat_groups, or of one that another
// block owns, by its name.
struct FlatGroupOccurrence {
  int own = -1;
  std::string borrowed;
};

// The leases and commits of one block in order, each by its place in BlockKind::occurrences. Stores fetch ahead along
// them, so the block must do exactly this.
struct BlockAccesses {
  struct Step {
    Access::Kind kind;
    int occurrence;
  };
  std::vector<int> forward, evaluation;  // leases of a forward pass that trains, of one that only evaluates
  std::vector<Step> backward;
};

// A block of the model's stream: the embedding, a layer, the head. It owns flat groups. Every number is of one block,
// one rank and one micro-batch; the arithmetic follows the order of allocations in the block itself, so that the
// arenas' high-water marks are these numbers exactly.
class BlockKind {
 public:
  virtual ~BlockKind() = default;

  // The flat groups of block number `index` of its part.
  virtual std::vector<FlatGroup> flat_groups(const ModelConfig& model, std::int64_t index) const = 0;
  // By default each own flat group once: leased in forward, leased and committed in backward.
  virtual std::vector<FlatGroupOccurrence> occurrences(const ModelConfig& model) const;
  virtual BlockAccesses accesses(const ModelConfig& model) const;

  // On the activation stack: between forward and backward, and at most at one time of an evaluation.
  virtual std::int64_t saved_bytes(const ModelConfig& model, const MicroShape& shape) const = 0;
  virtual std::int64_t evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const = 0;
  // The same of a layer that is told Recompute::selective (model::Step::recompute). By default it keeps what it saves.
  virtual StackBytes selective_bytes(const ModelConfig& model, const MicroShape& shape) const;
  // Of its evaluation, in which it is told so, too: at most what would stay in training, and what would not.
  virtual StackBytes selective_evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const;
  // Can the block make its weight gradients apart (MicroShape::weight_gradients)? It then leases in input_gradients
  // what backward leases and commits in weight_gradients what backward commits. One that does not say so does all of
  // backward in input_gradients.
  virtual bool makes_weight_gradients_apart(const ModelConfig&) const { return false; }
  // The most scratch at one time; backward: of its halves, where they are apart.
  virtual std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const = 0;
  virtual std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const = 0;

  // Model FLOPs of forward, for each token; backward takes twice as many.
  virtual double forward_flops(const ModelConfig& model, std::int64_t sequence) const = 0;
  // Of the forward that a recomputed block runs again in backward, for what it saves alone. By default those of
  // forward.
  virtual double recompute_flops(const ModelConfig& model, std::int64_t sequence) const;
  // Of backward, those of weight gradients that are made apart.
  virtual double apart_flops(const ModelConfig&, std::int64_t) const { return 0; }

  // Is the block made for ranks that share it: are its parameters cut or the same on all, its rows those of the stream
  // (MicroShape::own_rows), its sums and calls theirs? A kind that does not say so runs with --tensor-parallel 1
  // alone.
  virtual bool shared_by_tensor_ranks() const { return false; }
  // Of one micro-batch: forward and backward, with what recomputation sends again, or an evaluation. By default none.
  virtual std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                              Recompute recompute) const;
  // The same among the ranks that hold different experts.
  virtual std::vector<GroupCall> expert_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                              Recompute recompute) const;
};

// A branch of a layer: what is added to the residual stream, as a function of the normed residual stream: attention,
// feed-forward. Its norm and its residual belong to the layer, which owns the flat group that the branch declares its
// parameters in.
class BranchKind {
 public:
  virtual ~BranchKind() = default;

  // The prefix of its parameters and of its dropout sites: "ffn" makes the norm "ffn_norm", the site "ffn_residual".
  virtual std::string prefix() const = 0;
  virtual double residual_dropout(const ModelConfig&) const { return 0; }
  // Do ranks that share a layer share this branch: are its parameters cut, and its output the sum over them
  // (model/shared_sum.h)? A branch that does not say so runs with --tensor-parallel 1 alone.
  virtual bool shared_by_tensor_ranks() const { return false; }
  virtual void declare(Declaration& flat_group) const = 0;
  // A flat group beside that of the layer, which the branch leases and commits itself: by default none; at most one
  // branch of a layer has one. `layer` begins its name.
  virtual bool has_own_flat_group() const { return false; }
  virtual FlatGroup own_flat_group(const ModelConfig&, const std::string& /*layer*/) const { return {}; }

  // Between forward and backward, or while one of the two runs (Stays); in an evaluation until its forward ends.
  virtual std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, Pass pass) const = 0;
  // Beside the layer's own buffers: the output of the branch in forward, the gradient of its input in backward.
  virtual std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const = 0;
  virtual std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const = 0;
  virtual double forward_flops(const ModelConfig& model, std::int64_t sequence) const = 0;

  // What a rank says for one micro-batch among the tensor ranks of its replica, as BlockKind::tensor_calls. By default
  // it gathers the rows of its input and adds up its output; back, it gathers the rows of the output's gradient and
  // again of the input, and adds up the input's gradient. A layer that runs forward again gathers and adds up what is
  // read.
  enum class Again { output, all_but_output };
  virtual std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                              Recompute recompute, Again again) const;
  // What a rank says for one micro-batch to those that hold other experts (Axis::expert): in forward, which
  // recomputation runs again, and in backward. By default nothing.
  virtual std::vector<GroupCall> expert_calls(const ModelConfig&, const MicroShape&, Pass, Recompute) const {
    return {};
  }

  // Can weight gradients be made apart: does the branch leave in its tensors what they need (model::Branch)? A layer
  // makes them apart if all its branches can.
  virtual bool makes_weight_gradients_apart() const { return false; }
  // The scratch of its halves, as backward_workspace_bytes; asked where it can.
  virtual std::int64_t input_gradients_workspace_bytes(const ModelConfig&, const MicroShape&) const { return 0; }
  virtual std::int64_t weight_gradients_workspace_bytes(const ModelConfig&, const MicroShape&) const { return 0; }
  virtual double apart_flops(const ModelConfig&) const { return 0; }

  // When a recomputed layer runs forward again, nobody reads the output of its last branch. Does the branch leave it
  // out then, with the sum over ranks that share it? It is handed an empty output (model::Branch). By default it is
  // not.
  virtual bool skips_unread_output() const { return false; }
  // Of forward_flops, what making the output takes; asked where it is left out.
  virtual double output_flops(const ModelConfig&) const { return 0; }
};

// The kinds by name. Of this library: blocks "embedding", "layer" and "head", branches "attention", "ffn" and "experts"
// (plan/layer_model.h). A later registration of a name takes the place of an earlier one. Not thread-safe: register
// before anything is planned.
void register_block(const std::string& name, std::shared_ptr<const BlockKind> kind);
void register_branch(const std::string& name, std::shared_ptr<const BranchKind> kind);
const BlockKind& block_kind(const std::string& name);  // UsageError with the nearest that there is
const BranchKind& branch_kind(const std::string& name);
std::vector<std::string> block_names();  // sorted
std::vector<std::string> branch_names();

}  // namespace trainyard::plan
