// The norm before a branch or before the head: its saved tensors and scratch.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

namespace trainyard::plan {

// "input" (only in training: an evaluation finds it in the hidden states), "mean" (layer norm), "rstd", "normed".
// "normed" can be recomputed from "input".
std::vector<SavedTensor> norm_tensors(const ModelConfig& model, const MicroShape& shape, Pass pass);
// The place where a norm's gradients are kept until weight gradients are computed (WeightGradients::apart):
// "norm_gradients".
SavedTensor norm_gradients_tensor(const ModelConfig& model, const MicroShape& shape);
// Scratch of backward; forward needs none.
std::int64_t norm_workspace_bytes(const ModelConfig& model, const MicroShape& shape);

}  // namespace trainyard::plan
