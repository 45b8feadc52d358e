// Block: a part of the model with explicit forward and backward. Lifetimes are visible; there is no tape.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/params/store.h"
#include "libtrain/plan/micro_shape.h"
#include "libtrain/tensor/exec.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::model {

struct KvCache;
class TensorCollectives;
const TensorCollectives& one_rank();  // trivial collectives (model/collectives.h)
class AttentionLists;
class ExpertCollectives;
const ExpertCollectives& own_experts();  // likewise (model/expert_collectives.h)

// One micro-batch: b sequences of T tokens. All views int32 [b, T], on the device that works on it, unless said
// otherwise.
struct MicroBatch {
  base::View tokens, targets, positions;
  base::View document_start;  // for each token the index in its sequence where its document begins (0 without the mask)
  base::View key_end;         // where that ends, for a model that sees both ways; empty: with the sequence
  base::View weights;         // u8 [b, T]: 1 counts, 0 does not (first target after an end of document under the mask,
                              // places that no masked model has to find)
  std::vector<std::uint64_t> samples;   // global sample ordinal of each sequence (the key of dropout)
  const std::uint64_t* keys = nullptr;  // the same ordinals in the device's memory; nullptr: `samples` is there
  std::int64_t counted = -1;            // targets with weight 1; -1: weights are on the host and are counted there
  base::View counted_there = {};        // the same as f64 [1] on the device
  const std::uint64_t* sample_keys() const { return keys != nullptr ? keys : samples.data(); }
  // Its target tokens, where the host can know them: as it was told, or by the weights.
  std::int64_t counted_targets() const {
    if (counted >= 0) return counted;
    const auto* w = weights.ptr<std::uint8_t>();
    return std::count_if(w, w + weights.count(), [](std::uint8_t x) { return x != 0; });
  }
  std::int64_t batch() const { return tokens.shape[0]; }
  std::int64_t sequence() const { return tokens.shape[1]; }
};

// The stack of saved activations of one micro-batch in flight. forward pushes in order, backward pops in reverse; empty
// afterwards. Input gradients keep what weight gradients will pop: from there on what others pop below it is given back
// with it, and nothing is pushed.
class Saved {
 public:
  // Several may have one place for what passes, of which only one has something at any time; without it all lies in
  // `arena`.
  explicit Saved(tensor::Arena& arena, tensor::Arena* passing = nullptr)
      : arena_(arena), passing_(passing != nullptr ? *passing : arena) {}
  // What is pushed in its life is popped before anything else is done with another micro-batch.
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
  base::View top() const;  // what the next pop, or keep, gives
  base::View keep();       // of input gradients: leaves it there
  void pop_kept();         // weight gradients begin: pops begin at the top again
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  void clear();

 private:
  struct Entry {
    base::View view;
    tensor::Arena* arena;
    std::int64_t mark;
    bool popped = false;  // while something above it was kept
  };
  std::size_t next() const;
  void drop_popped();
  tensor::Arena &arena_, &passing_;
  int passing_scopes_ = 0;  // that are open
  std::vector<Entry> entries_;
  std::size_t kept_above_ = 0;  // entries at the top that were kept, or popped between such
};

// Is what a forward pass leaves in the stream read by anybody? Not when a recomputed block runs it again in backward:
// that is for what it saves. flow.main may then be left as it is; a block that makes no difference is right, too.
enum class Output { read, unread };

// What a block may see of the step. Results of the head: loss_sum (fp64, over counted targets) and target_count.
struct Step {
  tensor::Exec& exec;             // compute; exec.scratch() is the workspace arena
  params::ParameterStore* store;  // never null
  const MicroBatch& micro;
  base::DType dtype;                    // working dtype
  std::uint64_t seed = 0;               // of dropout
  plan::Pass pass = plan::Pass::train;  // evaluate: no dropout, nothing is saved
  double loss_sum = 0;
  std::int64_t target_count = 0;
  base::View loss_place = {};  // f64 [1] on the device: gets the loss sum instead of loss_sum, and nobody waits
  KvCache* past = nullptr;     // evaluation of one sequence: attention keeps and uses keys and values of earlier passes
  const TensorCollectives* collectives = &one_rank();  // to the ranks that share every layer with this one
  const ExpertCollectives* experts = &own_experts();   // to those that have other experts
  Output output = Output::read;                        // of the forward pass of a block
  plan::Recompute recompute = plan::Recompute::none;   // selective: a layer keeps only what always stays (plan::Stays)
  // apart: backward is input_gradients and later weight_gradients.
  plan::WeightGradients weight_gradients = plan::WeightGradients::with_inputs;
  // This rank has no micro-batch where others have one, `micro` its shape alone: blocks that work for others do that
  // and nothing else.
  bool absent = false;
  const AttentionLists* lists = nullptr;  // where a layer has blocks of attention (plan::is_sparse)
  // i64 on the device, a row for each layer of the whole model that has experts (kernels/gate_record): training adds
  // what its gates did. Empty: nobody asks, or another of the ranks that share the layers tells it.
  base::View gate_records = {};
};

// main: [stream rows, hidden] in the working dtype: b*T rows, or this rank's run of them where tensor ranks share them.
// In backward it is the gradient of main, updated in place by each block.
struct Flow {
  base::View main;
  base::View memory;  // encoder-decoder models; empty here
};

// Made from its description, a plan::BlockKind, and keeps to it: it leases and commits in that order, saves those
// tensors and takes that scratch.
class Block {
 public:
  virtual ~Block() = default;
  virtual std::string name() const = 0;
  virtual void forward(Step& step, Flow& flow, Saved& saved) = 0;
  virtual void backward(Step& step, Flow& flow, Saved& saved) = 0;
  // Has it what tokens of other ranks go to (plan::ModelPart::experts)? Only such a block is called where step.absent
  // is set; for the others the store passes over what they would lease and commit.
  virtual bool works_for_others() const { return false; }
  // The two in its place where weight gradients are made apart, to the same bits; other micro-batches may pass between
  // them. A block whose kind says that it can (plan::BlockKind::makes_weight_gradients_apart) overrides both: the first
  // ends as backward does for the stream, keeps on the stack what the second pops, and commits nothing.
  virtual void input_gradients(Step& step, Flow& flow, Saved& saved) { backward(step, flow, saved); }
  virtual void weight_gradients(Step&, Flow&, Saved&) {}
};

}  // namespace trainyard::model
