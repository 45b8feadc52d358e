// Formulas for the activations and the workspace of a model: sums over its blocks, from their kinds
// (plan/blocks/block_kind.h).
#pragma once

#include "libtrain/plan/blocks/inventory.h"

#include <array>
#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Bytes of everything that the blocks of a model, or of a chunk of it, save of one micro-batch. `kept` is what stays
// between forward and backward. `most` adds what the largest block needs while it runs. With Recompute::layers, `most`
// is the inputs of all layers plus everything that one layer saves. With Recompute::selective, it is what all layers
// keep plus what one branch does not keep. With Recompute::layers the first `elsewhere` layers keep nothing in memory
// (plan/cost/activation_offload.h).
StackBytes saved_bytes(const ModelPart& part, const MicroShape& shape, const Recomputation& recompute = {},
                       std::int64_t elsewhere = 0);

// The hidden states [own rows, hidden] of one sequence each in the working dtype. Forward stores activations there, and
// backward their gradient in the same place. The caller of the blocks allocates them once, from the activations arena.
// So activation_bytes is stream + saved (Pass::train), or stream + the most that a block has at one time
// (Pass::evaluate, which never needs more).
std::int64_t stream_bytes(const ModelConfig& model, const MicroShape& shape);
// The hidden states that blocks `chunk` of the model have at one time. In an encoder-decoder model these are up to the
// bridge the encoder's, and from there on the decoder's, beside the encoder's output and in training the sum of its
// gradients in the accumulation dtype.
std::int64_t hidden_bytes(const ModelConfig& model, const Items& chunk, const MicroShape& shape, Pass pass);
std::int64_t activation_bytes(const ModelPart& part, const MicroShape& shape, Pass pass,
                              const Recomputation& recompute = {});

// Activation bytes of the micro-batches that a rank has in flight. Each micro-batch has a slot in each chunk. If there
// are several slots, they share one place for what the running block does not keep.
struct SlotBytes {
  std::vector<std::int64_t> of_chunk;  // one micro-batch's slot in each chunk
  std::int64_t passing = 0;
  std::int64_t total(const std::vector<int>& slots) const;
};
// The slots of a part with one recomputation after the other. Counts each kind of block once.
class SlotCounter {
 public:
  SlotCounter(const ModelPart& part, const MicroShape& shape);
  // slots: for each chunk of the part, the number of micro-batches in flight at one time. elsewhere: for each chunk, of
  // how many layers the inputs are not in memory; empty: all are.
  SlotBytes with(const Recomputation& recompute, const std::vector<int>& slots,
                 const std::vector<std::int64_t>& elsewhere = {}) const;

 private:
  struct Blocks {  // that are alike
    Part part;
    std::int64_t times;
    // By the form of recomputation: what they save, and what an evaluation has in their chunk's slot (kept) and in the
    // shared place of what is not kept (passing).
    std::array<StackBytes, recomputations.size()> saved, evaluated;
  };
  std::int64_t layers_;
  std::vector<std::int64_t> hidden_;  // of each chunk
  std::vector<std::vector<Blocks>> chunks_;
};
SlotBytes slot_bytes(const ModelPart& part, const MicroShape& shape, const Recomputation& recompute,
                     const std::vector<int>& slots, const std::vector<std::int64_t>& elsewhere = {});

// High-water mark of the workspace arena over a whole pass (train: forward and backward). It is the bytes of the
// attention lists (plan/cost/attention_lists.h) plus the workspace of the largest block. Recomputation does not change
// it.
std::int64_t workspace_bytes(const ModelPart& part, const MicroShape& shape, Pass pass);

// Elements, in the accumulation dtype, that a tensor-parallel collective receives at one time
// (model/tensor_collectives.h).
std::int64_t tensor_staging_elements(const ModelConfig& model, const MicroShape& shape);
std::int64_t tensor_staging_bytes(const ModelConfig& model, const MicroShape& shape);

}  // namespace trainyard::plan
