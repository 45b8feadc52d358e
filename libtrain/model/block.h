// Block: a part of the model with explicit forward and backward passes. Lifetimes are visible; there is no autograd
// tape.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/params/store.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/tensor/exec.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::model {

struct KvCache;
struct SourceCache;
class TensorCollectives;
const TensorCollectives& one_rank();  // collectives of one rank (model/tensor_collectives.h)
class AttentionLists;
class OffloadedInputs;
class ExpertCollectives;
const ExpertCollectives& own_experts();  // likewise (model/expert_collectives.h)

// One micro-batch: b sequences of T tokens. It is empty with b = 0: in an uneven last accumulation step, a rank may
// have no sequences, and its experts compute rows of other ranks. Unless said otherwise, views are int32 [b, T] on the
// device that computes.
struct MicroBatch {
  base::ConstView tokens, targets, positions;
  base::ConstView document_start;  // where in its sequence each token's document begins (0 without the document mask)
  base::ConstView key_end;         // where it ends, for a model that sees both ways; empty: at the end of the sequence
  // u8 [b, T]: 1 if the target counts, else 0. 0: the first target after an end of document under the document mask,
  // and tokens that a masked model need not predict.
  base::ConstView weights;
  std::vector<std::uint64_t> samples;   // global sample ordinal of each sequence (the key of dropout)
  const std::uint64_t* keys = nullptr;  // the same ordinals in the device's memory; nullptr: the device reads `samples`
  std::int64_t counted = -1;            // targets with weight 1; -1: `weights` are on the host and are counted there
  base::ConstView counted_there = {};   // the same number as f64 [1] on the device
  std::vector<std::int64_t> counted_of = {};  // the same number for each sequence, if the loader gives it
  // In an encoder-decoder model: the source sequences, whose number is the same, with their tokens, positions, document
  // starts and key ends. Tokens here see of them the places [source_start, source_end), i32 [b, T].
  const MicroBatch* source = nullptr;
  base::ConstView source_start = {}, source_end = {};
  const std::uint64_t* sample_keys() const { return keys != nullptr ? keys : samples.data(); }
  // The number of target tokens: `counted`, or counted from `weights` on the host.
  std::int64_t counted_targets() const {
    if (counted >= 0) return counted;
    const auto* w = weights.ptr<std::uint8_t>();
    return std::count_if(w, w + weights.count(), [](std::uint8_t x) { return x != 0; });
  }
  bool empty() const { return batch() == 0; }
  std::int64_t batch() const { return tokens.shape[0]; }
  std::int64_t sequence() const { return tokens.shape[1]; }
};

// A micro-batch without sequences. `source` is likewise empty, or null.
inline MicroBatch empty_micro_batch(std::int64_t sequence, base::Device device, const MicroBatch* source = nullptr) {
  MicroBatch empty;
  for (auto* indices : {&empty.tokens, &empty.targets, &empty.positions, &empty.document_start})
    *indices = base::View(nullptr, base::DType::i32, {0, sequence}, device);
  empty.weights = base::View(nullptr, base::DType::u8, {0, sequence}, device);
  empty.counted = 0;
  empty.source = source;
  if (source != nullptr) empty.source_start = empty.source_end = empty.tokens;
  return empty;
}

// The stack of saved activations of one micro-batch in flight. forward pushes; backward pops in reverse order and
// leaves the stack empty. If backward runs in two halves, input_gradients may leave an entry on the stack (keep), and
// weight_gradients pops it later. An entry below a kept one can be popped too; its memory is released when the kept one
// is popped. While entries are kept, nothing may be pushed.
class Saved {
 public:
  // `passing`: an arena that several stacks share for short-lived tensors, of which only one stack has some at any
  // time. Without it all tensors are in `arena`.
  explicit Saved(tensor::Arena& arena, tensor::Arena* passing = nullptr)
      : arena_(arena), passing_(passing != nullptr ? *passing : arena) {}
  // Tensors that are pushed in its lifetime go to the `passing` arena. They are popped before another micro-batch
  // computes.
  class Passing {
   public:
    explicit Passing(Saved& saved) : saved_(saved) { ++saved_.passing_scopes_; }
    ~Passing() { --saved_.passing_scopes_; }
    Passing(const Passing&) = delete;
    Passing& operator=(const Passing&) = delete;

   private:
    Saved& saved_;
  };
  base::View push(base::DType dtype, std::initializer_list<std::int64_t> shape);
  base::View pop();
  base::View top() const;  // what the next pop or keep returns
  base::View keep();       // for input gradients: returns the top entry and leaves it there
  void pop_kept();         // weight gradients begin: pops start at the top again
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  void clear();

 private:
  struct Entry {
    base::View view;
    tensor::Arena* arena;
    std::int64_t mark;
    bool popped = false;  // popped, but not released, because something above it is kept
  };
  std::size_t next() const;
  void drop_popped();
  tensor::Arena &arena_, &passing_;
  int passing_scopes_ = 0;  // scopes that are open
  std::vector<Entry> entries_;
  std::size_t kept_above_ = 0;  // entries at the top that were kept, or popped below a kept one
};

// Does anybody read the hidden states that a forward pass leaves? unread: activation recomputation runs forward again
// in backward, only for what it saves. The block may then leave flow.main as it is. A block that ignores this is right,
// too.
enum class Output { read, unread };

// What a block may see of the step. The head adds its results to loss_sum (f64, over counted targets) and target_count.
struct Step {
  tensor::Exec& exec;             // compute; exec.scratch() is the workspace arena
  params::ParameterStore* store;  // never null
  const MicroBatch& micro;
  base::DType dtype;                    // working dtype
  std::uint64_t seed = 0;               // of dropout and of gates
  plan::Pass pass = plan::Pass::train;  // evaluate: no dropout, nothing is saved
  double loss_sum = 0;
  std::int64_t target_count = 0;
  base::View loss_place = {};  // f64 [1] on the device: gets the loss sum instead of loss_sum; the host does not wait
  // Evaluation: of each sequence of the micro-batch, a cache where attention stores keys and values, and reads earlier
  // ones (model/kv_cache.h). Empty: there are none.
  std::span<KvCache* const> past = {};
  const TensorCollectives* collectives = &one_rank();  // between the tensor-parallel ranks
  const ExpertCollectives* experts = &own_experts();   // between the ranks that hold different experts
  Output output = Output::read;                        // is the output of a forward pass read
  plan::Recompute recompute = plan::Recompute::none;   // selective: a layer keeps only plan::Stays::always
  // apart: input_gradients and later weight_gradients replace backward.
  plan::WeightGradients weight_gradients = plan::WeightGradients::with_inputs;
  // The weights of a layer's adapters, and in backward where their gradients go, while the layer runs.
  const params::Lease* adapter = nullptr;
  const params::Grads* adapter_gradients = nullptr;
  // The same of the table of relative positions.
  const params::Lease* relative_positions = nullptr;
  const params::Grads* relative_positions_gradients = nullptr;
  const AttentionLists* lists = nullptr;  // set if a layer has block-sparse attention (plan::is_sparse)
  // i64 on the device, a row for each layer with experts in the whole model (kernels/gate_record). A pass
  // adds what its gates did. Empty: not wanted, or another tensor-parallel rank records it.
  base::View gate_records = {};
  double loss_scale = 1;       // factor of the gradients of all losses; losses themselves are not scaled
  double label_smoothing = 0;  // of the loss in training (kernels/cross_entropy); an evaluation has none
  // Where recomputed layers have their inputs that are not in memory, and which slot and chunk this micro-batch has.
  OffloadedInputs* inputs = nullptr;  // null: all are in memory
  int chunk = 0, slot = 0;
  // f64 [b] on the device: gets the loss sum of each sequence in training. Empty: not wanted.
  base::View sequence_losses = {};
  // While blocks behind an encoder run: its output, and in training the sum of its gradients (Flow).
  base::View memory = {}, memory_gradient = {};
};

// What an encoder's blocks see of a step: `step.micro.source` is their micro-batch.
Step step_of_source(Step& step);

// main: the hidden states [own rows, hidden] in the working dtype: all b*T rows, or this rank's equal range of them
// with sequence parallelism. In backward it is the gradient of the hidden states, which each block updates in place.
//
// In an encoder-decoder model main is the encoder's hidden states up to the bridge, and `target` from there on. memory:
// the encoder's output, which forward makes and no block behind the bridge changes. memory_gradient: the sum of its
// gradients in the accumulation dtype, to which backward adds one layer's after the other; empty in an evaluation. Both
// are [own rows of the source, hidden].
struct Flow {
  base::View main;
  base::View memory = {}, memory_gradient = {}, source = {}, target = {};
};

// A block is made from its description, a plan::BlockKind, and keeps to it: the order of leases and commits, the saved
// tensors, the scratch.
class Block {
 public:
  virtual ~Block() = default;
  virtual std::string name() const = 0;
  virtual void forward(Step& step, Flow& flow, Saved& saved) = 0;
  virtual void backward(Step& step, Flow& flow, Saved& saved) = 0;
  // The two halves of backward for separate weight gradients, with the same bits. Other micro-batches may run between
  // them. A block whose kind says makes_weight_gradients_apart (plan::BlockKind) overrides both. The first half leaves
  // the gradient of the hidden states as backward does, keeps on the stack what the second pops, and commits nothing.
  virtual void input_gradients(Step& step, Flow& flow, Saved& saved) { backward(step, flow, saved); }
  virtual void weight_gradients(Step&, Flow&, Saved&) {}
};

}  // namespace trainyard::model
