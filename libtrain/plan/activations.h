// Activations and workspace of a model by formula: sums over its blocks, each as its kind says (plan/block_kind.h).
#pragma once

#include "libtrain/plan/inventory.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Of all that the blocks of a model, or of a chunk of it, have saved of one micro-batch. kept: between forward and
// backward. most: with what the largest block needs beside it while it runs: with Recompute::layers the inputs of all
// layers plus the full list of one, with Recompute::selective what stays of all layers plus what does not of one
// branch.
StackBytes saved_bytes(const ModelPart& part, const MicroShape& shape, Recompute recompute = Recompute::none);

// The residual stream [stream rows, hidden] in the working dtype (forward: activations, backward: their gradient, in
// place), allocated once by the caller of the blocks from the same arena: category activations = stream + saved
// (Pass::train), stream + the most that a block has at one time (Pass::evaluate, never more).
std::int64_t stream_bytes(const ModelConfig& model, const MicroShape& shape);
std::int64_t activation_bytes(const ModelPart& part, const MicroShape& shape, Pass pass,
                              Recompute recompute = Recompute::none);

// Of the micro-batches that a rank has in flight: a place for each in each chunk, and, where there are several, one for
// what the block that runs does not keep.
struct SlotBytes {
  std::vector<std::int64_t> of_chunk;  // of each micro-batch of a chunk
  std::int64_t passing = 0;
  std::int64_t total(const std::vector<int>& slots) const;
};
// slots: of each chunk of the part, micro-batches in flight at one time.
SlotBytes slot_bytes(const ModelPart& part, const MicroShape& shape, Recompute recompute,
                     const std::vector<int>& slots);

// High-water mark of the workspace arena over a whole pass (train: forward and backward): what attention's lists take
// (plan/attention_lists.h), and above them the largest block, whatever is recomputed.
std::int64_t workspace_bytes(const ModelPart& part, const MicroShape& shape, Pass pass);

// Elements, in the accumulation dtype, that an exchange between tensor ranks receives at one time
// (model/collectives.h).
std::int64_t tensor_staging_elements(const ModelConfig& model, const MicroShape& shape);
std::int64_t tensor_staging_bytes(const ModelConfig& model, const MicroShape& shape);

}  // namespace trainyard::plan
