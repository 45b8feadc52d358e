// Decoder: the blocks of one model, or of a chunk of it, run over one micro-batch: forward in order, backward in
// reverse.
#pragma once

#include "libtrain/model/block.h"
#include "libtrain/plan/accesses.h"
#include "libtrain/plan/activations.h"
#include "libtrain/plan/inventory.h"

#include <functional>
#include <memory>
#include <vector>

namespace trainyard::model {

// Sees the residual stream behind every block: its output in forward, the gradient of its input in backward. Empty:
// nobody looks.
using Observer = std::function<void(const Block& block, base::View stream)>;

// Order of leases and commits in one training micro-batch: plan::training_accesses(part, chunk), with or without
// recomputation; in evaluate and logits plan::evaluation_accesses(part, chunk). Stores fetch ahead along these lists,
// so every block must keep to them.
//
// Memory: the residual stream is pushed first on Saved, blocks push behind it: the activations arena's high-water mark
// is plan::activation_bytes, the workspace arena's plan::workspace_bytes, exactly. Saved is empty before forward and
// after backward.
class Decoder {
 public:
  explicit Decoder(const plan::ModelPart& part, plan::Recompute recompute = plan::Recompute::none, int chunk = 0);
  ~Decoder();

  const plan::ModelConfig& model() const { return model_; }
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }

  // The residual stream of a micro-batch. Where the embedding is not among the blocks, what the block before them made
  // is put there before forward, and the gradient of that is there after backward; where the head is not, the stream
  // is the output after forward, and its gradient is put there before backward.
  Flow open(Step& step, Saved& saved);

  // Where step.absent is set, nothing comes or goes with the stream, and nobody observes.
  //
  // Training: step.pass is train. After backward step.loss_sum and step.target_count are those of this micro-batch
  // (added to what they held) and every occurrence of every flat group has been committed once. Gradients are of the
  // loss sum.
  void forward(Step& step, Flow& flow, Saved& saved, const Observer& observer = {});
  void backward(Step& step, Flow& flow, Saved& saved, const Observer& observer = {});
  // In place of backward, where step.weight_gradients is apart; other micro-batches may pass between them. The first
  // ends with the gradient of the stream, which must stay until the second ends.
  void input_gradients(Step& step, Flow& flow, Saved& saved, const Observer& observer = {});
  void weight_gradients(Step& step, Flow& flow, Saved& saved);
  // Of a whole model.
  Flow forward(Step& step, Saved& saved, const Observer& observer = {}) {
    auto flow = open(step, saved);
    forward(step, flow, saved, observer);
    return flow;
  }

  // Evaluation: where the head is among the blocks adds the loss of the micro-batch to step.loss_sum and its targets to
  // step.target_count. The stream stays readable until the next open.
  void evaluate(Step& step, Flow& flow, Saved& saved);
  void evaluate(Step& step, Saved& saved) {
    auto flow = open(step, saved);
    evaluate(step, flow, saved);
  }

  // Evaluation: logits of position `at` of each sequence, out f32 (f64 when that is the working dtype) [b, stored
  // vocabulary].
  void logits(Step& step, Saved& saved, std::int64_t at, base::View out);

 private:
  using Accesses = std::vector<plan::Access> plan::AccessesOfBlock::*;
  bool is_passed_over(std::size_t block, Step& step, Accesses accesses) const;
  void in_reverse(void (Block::*pass)(Step&, Flow&, Saved&), Accesses accesses, Step& step, Flow& flow, Saved& saved,
                  const Observer& observer);
  static void close(Saved& saved);
  plan::ModelConfig model_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<plan::AccessesOfBlock> accesses_;  // of each; where ranks share experts
};

}  // namespace trainyard::model
