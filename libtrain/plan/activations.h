// Activations and workspace by formula: what each block saves for backward, and the most scratch it uses. The blocks allocate from these lists.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/view.h"
#include "libtrain/plan/model_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

enum class BlockKind { embedding, layer, head };
enum class Pass { train, evaluate };          // evaluate: forward only, nothing saved, no dropout
enum class Recompute { none, layers };        // layers: each layer saves its input only and runs forward again in backward

// One micro-batch on one rank: b sequences of T tokens, n = b * T rows.
struct MicroShape {
  std::int64_t batch = 1, sequence = 1;
  base::DType dtype = base::DType::f32;       // working dtype: f32, bf16 (f64 for gradient checks)
  int threads = 1;                            // OpenMP team of the rank: some kernels use scratch for each thread
  base::DeviceKind device = base::DeviceKind::cpu;   // kernels of a GPU use other scratch
  std::int64_t rows() const { return batch * sequence; }
};

// A tensor that a block pushes on Saved, in push order. An arena hands it out at a multiple of 64 bytes.
struct SavedTensor {
  std::string name;
  base::DType dtype;
  std::vector<std::int64_t> shape;            // one or two dims
  std::int64_t bytes() const;                 // rounded up to 64
};
std::vector<SavedTensor> saved_tensors(const ModelConfig& model, BlockKind kind, const MicroShape& shape);

// The same by part: a layer saves those of its attention branch, then those of its feed-forward branch. With Pass::evaluate: the
// tensors that the part pushes while it runs and pops at its end.
enum class Part { attention, ffn, head };
std::vector<SavedTensor> part_tensors(const ModelConfig& model, Part part, const MicroShape& shape, Pass pass);

// Bytes of all that the blocks of the whole model have saved between forward and backward of one micro-batch. With Recompute::layers
// this is the peak inside a layer's backward: the inputs of all layers plus the full list of one.
std::int64_t saved_bytes(const ModelConfig& model, const MicroShape& shape, Recompute recompute = Recompute::none);

// The running stream [n, hidden] in the working dtype (forward: activations, backward: their gradient, in place), allocated once by the
// caller of the blocks from the same arena: category activations = stream + saved (Pass::train), stream + the largest part (Pass::evaluate, never more).
std::int64_t stream_bytes(const ModelConfig& model, const MicroShape& shape);
std::int64_t activation_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass, Recompute recompute = Recompute::none);

// High-water mark of the workspace arena inside one block, and over the whole pass (train: forward and backward; the largest block).
std::int64_t forward_workspace_bytes(const ModelConfig& model, BlockKind kind, const MicroShape& shape, Pass pass);
std::int64_t backward_workspace_bytes(const ModelConfig& model, BlockKind kind, const MicroShape& shape);
std::int64_t workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass, Recompute recompute = Recompute::none);

// The head makes logits for this many tokens at a time: whole-batch logits never exist. Part of the numerics, never tuned at run time.
constexpr std::int64_t head_chunk_tokens(base::DeviceKind device) { return device == base::DeviceKind::cuda ? 1024 : 256; }

}  // namespace trainyard::plan
