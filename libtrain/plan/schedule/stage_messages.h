// StageMessages: what a pipeline stage receives from the neighbouring stages and sends to them.
#pragma once

#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/schedule/stages.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// What passes a boundary for one micro-batch: the hidden states, and from the bridge of an encoder-decoder model to the
// last layer the encoder's output behind them. Both are [own rows, hidden] in the working dtype. The gradients that
// pass back have the same shapes. That of the encoder's output is a sum, in the accumulation dtype.
class StageMessages {
 public:
  StageMessages() = default;  // no boundary: nothing passes
  // The boundary before `item`, which is not the first one.
  StageMessages(const ModelConfig& model, std::int64_t item, const MicroShape& shape);
  struct Tensor {
    std::int64_t rows = 0;
    base::DType dtype = base::DType::f32;
    std::int64_t bytes = 0;  // that are sent
  };
  const std::vector<Tensor>& activations() const { return activations_; }
  const std::vector<Tensor>& gradients() const { return gradients_; }
  bool any() const { return !activations_.empty(); }
  bool has_memory() const { return activations_.size() > 1; }  // the encoder's output is one of them

 private:
  std::vector<Tensor> activations_, gradients_;
};
// The messages between a part (virtual stage) of a pipeline and the part before it.
StageMessages messages_before(const ModelConfig& model, const Stages& stages, int part, const MicroShape& shape);
// Bytes of memory of these tensors, one after the other.
std::int64_t memory_bytes(const std::vector<StageMessages::Tensor>& tensors);
// Of the buffers of a stage: in one, activations arrive for one of its chunks after the other. In training there is
// another, from which gradients are sent back.
std::int64_t message_buffer_bytes(const ModelConfig& model, const Stages& stages, int stage, const MicroShape& shape,
                                  Pass pass);

}  // namespace trainyard::plan
