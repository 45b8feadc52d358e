// MicroShape: a micro-batch as one rank computes it, and the variants of computing it.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/view.h"
#include "libtrain/plan/grid/expert_share.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>

namespace trainyard::plan {

enum class Pass { train, evaluate };  // evaluate: forward only, nothing saved, no dropout

// Activation recomputation: what backward computes again. selective: what needs neither a matrix product nor a
// collective, which is the outputs of a layer's norms and of its activation; so these are not kept. layers: each layer
// keeps only its input and runs forward again.
enum class Recompute { none, selective, layers };
inline constexpr std::array recomputations{Recompute::none, Recompute::selective, Recompute::layers};
constexpr const char* name_of(Recompute r) {  // as --recompute takes it
  return r == Recompute::none ? "none" : r == Recompute::selective ? "selective" : "full";
}

// Whether backward computes weight gradients together with input gradients, or apart from them and later
// (PipelineSchedule::zero_bubble). apart: what weight gradients need stays until then, in the place of what backward no
// longer reads.
enum class WeightGradients { with_inputs, apart };

// How attention is computed. fused: scores never leave the chip, and backward computes them again. apart: products,
// softmax and dropout are kernels of their own, and scores lie in memory (as in Megatron-LM of 2021). Only a program
// that is predicted and not run has it.
enum class AttentionKernels { fused, apart };

// The tokens of a sequence. In an encoder-decoder model: of a target sequence, and of the source sequence that belongs
// to it. A block whose lengths have a source is one that attends to it.
struct Lengths {
  Lengths(std::int64_t tokens, std::int64_t of_source = 0) : sequence(tokens), source(of_source) {}
  std::int64_t sequence, source;
  auto operator<=>(const Lengths&) const = default;
};

// A micro-batch: b sequences of T tokens.
struct MicroBatch {
  std::int64_t batch = 1, sequence = 1;
  std::int64_t tokens() const { return batch * sequence; }
  auto operator<=>(const MicroBatch&) const = default;
};

// What one rank has of each micro-batch, and how it computes.
struct RankShare {
  base::DType dtype = base::DType::f32;  // working dtype: f32, bf16 (f64 for gradient checks)
  int threads = 1;                       // OpenMP team of the rank: some kernels have scratch for each thread
  base::DeviceKind device = base::DeviceKind::cpu;  // GPU kernels use other scratch
  int tensor = 1;                                   // tensor-parallel ranks, which share every layer
  bool sequence_parallel = false;                   // these ranks also divide the rows of the hidden states
  WeightGradients weight_gradients = WeightGradients::with_inputs;
  ExpertShare experts = {};  // of a layer's experts; their sizes do not depend on ExpertShare::part
  // Tokens of a micro-batch of the ranks that send each other rows of experts. 0: as many as this rank's micro-batch
  // has, which may be empty.
  std::int64_t dispatch_tokens = 0;
  // Rows that a rank sends another rank in a dispatch round of experts; 0: as plan/blocks/expert_rounds.h says.
  std::int64_t expert_capacity_buffer = 0;
  AttentionKernels attention = AttentionKernels::fused;
  bool label_smoothing = false;  // training smooths labels, so that its loss needs the sum of logits, too
  std::int64_t element_bytes() const { return base::size_of(dtype); }
  // The dtype of sums and statistics: f32, or f64 if everything is f64.
  base::DType accumulation() const { return base::accumulation_of(dtype); }
  auto operator<=>(const RankShare&) const = default;
};

// In an encoder-decoder model there are also b source sequences of `source` tokens; 0: none.
struct MicroShape : MicroBatch, RankShare {
  std::int64_t source = 0;
  Lengths lengths() const { return {sequence, source}; }
  // The rows of this rank's products, attention, experts and logits: one for each token, since no axis divides
  // sequences.
  std::int64_t rows() const { return tokens(); }
  // The tokens for which rows of experts have room.
  std::int64_t dispatch_rows() const { return std::max(rows(), dispatch_tokens); }
  // This rank's rows of hidden states, norms and dropout: an equal run of neighbouring rows.
  std::int64_t own_rows() const { return own(rows()); }
  // The same of the sources.
  std::int64_t source_rows() const { return batch * source; }
  std::int64_t own_source_rows() const { return own(source_rows()); }
  std::int64_t own(std::int64_t all) const { return sequence_parallel ? all / tensor : all; }
  // The shape of what works on the sources alone.
  MicroShape of_source() const {
    auto out = *this;
    out.sequence = source, out.source = 0;
    if (sequence > 0) out.dispatch_tokens = dispatch_tokens / sequence * source;
    return out;
  }
  auto operator<=>(const MicroShape&) const = default;
};

// Numbers of a token's logits that ranks that share a vocabulary exchange: maximum, sum of exponentials, the target's
// logit, and for label smoothing the sum of logits (kernels/cross_entropy). An evaluation smooths nothing.
constexpr std::int64_t loss_statistics(const RankShare& s, Pass pass) {
  return s.label_smoothing && pass == Pass::train ? 4 : 3;
}

// The head computes logits for this many tokens at a time, so logits of a whole batch never exist. Part of the
// numerics, never tuned at run time.
constexpr std::int64_t head_chunk_tokens(base::DeviceKind device) {
  return device == base::DeviceKind::cuda ? 1024 : 256;
}

}  // namespace trainyard::plan
