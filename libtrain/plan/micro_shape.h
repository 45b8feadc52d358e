// MicroShape: a micro-batch as one rank computes it, and the ways to go through it.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/view.h"

#include <array>
#include <cstdint>

namespace trainyard::plan {

enum class Pass { train, evaluate };  // evaluate: forward only, nothing saved, no dropout

// What backward makes again, by what it costs. selective: what takes neither a product nor a call to other ranks, the
// outputs of a layer's norms and of its activation, so that they are not kept. layers: each layer keeps its input only
// and runs forward again.
enum class Recompute { none, selective, layers };
inline constexpr std::array recomputations{Recompute::none, Recompute::selective, Recompute::layers};
constexpr const char* name_of(Recompute r) {  // as --recompute takes it
  return r == Recompute::none ? "none" : r == Recompute::selective ? "selective" : "full";
}

// Does backward make weight gradients with those of the stream, or apart from them and later (PipelineSchedule::
// zero_bubble)? apart: what they need stays until then, in place of what backward has read for the last time.
enum class WeightGradients { with_inputs, apart };

// b sequences of T tokens, n = b * T rows.
struct MicroShape {
  std::int64_t batch = 1, sequence = 1;
  base::DType dtype = base::DType::f32;             // working dtype: f32, bf16 (f64 for gradient checks)
  int threads = 1;                                  // OpenMP team of the rank: some kernels use scratch for each thread
  base::DeviceKind device = base::DeviceKind::cpu;  // kernels of a GPU use other scratch
  int tensor = 1;                                   // ranks that share every layer
  bool sequence_parallel = false;                   // they share the rows of the residual stream, too
  WeightGradients weight_gradients = WeightGradients::with_inputs;
  std::int64_t expert_capacity_buffer =
      0;  // rows for another rank in a round of experts; 0: as plan/expert_rounds.h says
  std::int64_t rows() const { return batch * sequence; }
  // Of the residual stream, of norms and of dropout on this rank: equal runs of neighbouring rows.
  std::int64_t own_rows() const { return sequence_parallel ? rows() / tensor : rows(); }
  std::int64_t element_bytes() const { return base::size_of(dtype); }
  // What sums and statistics are kept in: f32, or f64 where everything is.
  base::DType accumulation() const { return dtype == base::DType::f64 ? base::DType::f64 : base::DType::f32; }
};

// The head makes logits for this many tokens at a time: whole-batch logits never exist. Part of the numerics, never
// tuned at run time.
constexpr std::int64_t head_chunk_tokens(base::DeviceKind device) {
  return device == base::DeviceKind::cuda ? 1024 : 256;
}

}  // namespace trainyard::plan
