// Decoder: the blocks of a model, or of one virtual stage, run over one micro-batch: forward in order, backward in
// reverse.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/cost/activations.h"

#include <functional>
#include <memory>
#include <vector>

namespace trainyard::model {

struct LogitRows;  // model/head_block.h

// Sees the hidden states behind every block: its output in forward, the gradient of its input in backward. An empty
// Observer is not called.
using Observer = std::function<void(const Block& block, base::View stream)>;

// Leases and commits of one training micro-batch come in the order of plan::training_accesses(part, chunk), with or
// without recomputation. In evaluate and logits it is plan::evaluation_accesses(part, chunk). Stores gather ahead along
// these lists, so every block must keep to them.
//
// Memory: the hidden states are pushed on Saved first, and blocks push behind them. The activations arena's high-water
// mark is exactly plan::activation_bytes, the workspace arena's exactly plan::workspace_bytes. Saved is empty before
// forward and after backward.
class Decoder {
 public:
  explicit Decoder(const plan::ModelPart& part, const plan::Recomputation& recompute = {}, int chunk = 0);
  ~Decoder();

  const plan::ModelConfig& model() const { return model_; }
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }

  // Pushes the hidden states of a micro-batch. Without an embedding block, the caller puts the previous block's output
  // there before forward, and finds its gradient there after backward. Without a head block, they are the output after
  // forward, and the caller puts their gradient there before backward. The same holds for an encoder's output and the
  // sum of its gradients, which is zero after this.
  Flow open(Step& step, Saved& saved);

  // Training: step.pass is train. Backward adds this micro-batch's loss sum and target count to step.loss_sum and
  // step.target_count, and commits every occurrence of every flat group once. Gradients are gradients of the loss sum.
  void forward(Step& step, Flow& flow, Saved& saved, const Observer& observer = {});
  void backward(Step& step, Flow& flow, Saved& saved, const Observer& observer = {});
  // The same for one block of the model's, so that other micro-batches may run between the blocks: forward for each
  // block in order, then backward in reverse.
  void forward_block(std::int64_t index, Step& step, Flow& flow, Saved& saved, const Observer& observer = {});
  void backward_block(std::int64_t index, Step& step, Flow& flow, Saved& saved, const Observer& observer = {});
  // The two halves of backward, if step.weight_gradients is apart. Other micro-batches may run between them. The first
  // ends with the gradient of the hidden states, which must stay until the second ends.
  void input_gradients(Step& step, Flow& flow, Saved& saved, const Observer& observer = {});
  void weight_gradients(Step& step, Flow& flow, Saved& saved);
  // For a whole model: open, then forward.
  Flow forward(Step& step, Saved& saved, const Observer& observer = {}) {
    auto flow = open(step, saved);
    forward(step, flow, saved, observer);
    return flow;
  }

  // Evaluation: if the head is among the blocks, it adds the micro-batch's loss to step.loss_sum and its targets to
  // step.target_count. The hidden states stay readable until the next open.
  void evaluate(Step& step, Flow& flow, Saved& saved);
  void evaluate(Step& step, Saved& saved) {
    auto flow = open(step, saved);
    evaluate(step, flow, saved);
  }

  // Evaluation: logits of position `at` of each sequence. out [b, stored vocabulary] is f32, or f64 when that is the
  // working dtype.
  void logits(Step& step, Saved& saved, std::int64_t at, base::View out);
  // Evaluation: logits of some rows of the micro-batch, a few at a time. A later pass of texts with caches (goes_on)
  // begins at the bridge of an encoder-decoder model, and its micro-batch has no sources.
  void logits(Step& step, Saved& saved, const LogitRows& wanted);

 private:
  using Pass = void (Block::*)(Step&, Flow&, Saved&);
  void run(std::int64_t index, Pass pass, Step& step, Flow& flow, Saved& saved, const Observer& observer);
  void run_block(std::int64_t index, Pass pass, Step& step, Flow& flow, Saved& saved);
  void in_reverse(Pass pass, Step& step, Flow& flow, Saved& saved, const Observer& observer);
  void close(Saved& saved) const;
  plan::ModelConfig model_;
  plan::HeldStreams held_;
  std::int64_t bridge_ = 0;      // index of the bridge among the blocks; 0: there is none
  std::vector<bool> of_source_;  // of each block
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace trainyard::model
