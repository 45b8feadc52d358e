// Arguments of the gate as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "libtrain/plan/spec/experts.h"

#include <cstdint>

namespace trainyard::kernels {

// Keys of random numbers (kernels/gate/gate.h).
struct GateKeys {
  std::uint64_t seed = 0, noise_site = 0, overflow_site = 0;
  const std::uint64_t* samples = nullptr;
  std::int64_t sequence = 1;
};

// What both passes read.
struct GateArgs {
  std::int64_t tokens = 0, experts = 1, top_k = 1, capacity = 0, slot_rows = 0, source_rows = 0;
  plan::Overflow overflow = plan::Overflow::random;
  plan::GateScore score = plan::GateScore::softmax;
  plan::GateNoise noise = plan::GateNoise::none;
  bool by_choice = false, balance_all = false;
  plan::GateWeights weigh = plan::GateWeights::scores;  // resolved: never `usual`
  double scale = 1;
  std::int64_t expert_groups = 1, top_groups = 1;
  GateKeys keys;
  ConstMat logits;
  const void* bias = nullptr;
  // Views of a GateChoice, which the forward pass writes first.
  const std::int32_t *chosen = nullptr, *rows = nullptr, *loads = nullptr;
  int threads = 1;
};
// The views of a GateChoice, to write.
struct GateResults {
  std::int32_t *chosen = nullptr, *rows = nullptr, *sources = nullptr, *groups = nullptr, *loads = nullptr;
  void* weights = nullptr;
  double* losses = nullptr;
};
struct GateForwardArgs : GateArgs {
  GateResults to;
  // Scratch (libtrain/plan/blocks/expert_scratch.h).
  double *block_numbers = nullptr, *token_numbers = nullptr;  // token_numbers: on a GPU
  std::int32_t* block_counts = nullptr;                       // on a GPU: [blocks, 2 * experts]
  void* scores = nullptr;                                     // T [tokens, top_k]
  std::uint64_t* order_keys = nullptr;
  std::int32_t* order = nullptr;  // choices, as token * top_k + number, sorted by class, expert and token
  std::int32_t* ends = nullptr;   // [classes * experts + 1]: where in `order` the choices of a class and expert end
};
struct GateBackwardArgs : GateArgs {
  ConstMat d_weights;
  double balance = 0, z = 0;
  const double* targets = nullptr;
  Mat d_logits;
};
struct GateJitterArgs {
  ConstMat x;
  GateKeys keys;
  Mat y;
  int threads = 1;
};

TRAINYARD_CPU_KERNEL(void, gate_forward_cpu, (const GateForwardArgs& args))
TRAINYARD_CPU_KERNEL(void, gate_backward_cpu, (const GateBackwardArgs& args))
TRAINYARD_CPU_KERNEL(void, gate_jitter_cpu, (const GateJitterArgs& args))

}  // namespace trainyard::kernels
