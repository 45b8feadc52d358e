// The norm at the mouth of a branch and before the head: its saved tensors and scratch.
#pragma once

#include "libtrain/plan/block_kind.h"

namespace trainyard::plan {

// "input" (training: an evaluation finds it in the residual stream), "mean" (layer norm), "rstd", "normed". The last
// can be made again from the first.
std::vector<SavedTensor> norm_tensors(const ModelConfig& model, const MicroShape& shape, Pass pass);
// Where the gradients of its parameters wait for the others' (WeightGradients::apart): "norm_gradients".
SavedTensor norm_gradients_tensor(const ModelConfig& model, const MicroShape& shape);
// Of backward; forward needs none.
std::int64_t norm_workspace_bytes(const ModelConfig& model, const MicroShape& shape);

}  // namespace trainyard::plan
