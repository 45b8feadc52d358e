// The gate of a mixture of experts: which experts a token goes to, where it stands among an expert's rows, with what
// weight its results come back; and the gradients of that.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/plan/experts.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// Of one gate group: S tokens, all of one micro-batch, E experts, k choices of each token. T is f32, f64 where
// everything is.
struct Gate {
  std::int64_t experts = 1, top_k = 1;
  std::int64_t capacity = 0;  // places of each expert; 0: as many as want it
  plan::Overflow overflow = plan::Overflow::random;
  plan::GateScore score = plan::GateScore::softmax;
  plan::GateNoise noise = plan::GateNoise::none;  // jitter is gate_jitter's, and none here
  plan::GatePlacement placement = plan::GatePlacement::usual;
  plan::BalanceOver balance_over = plan::BalanceOver::usual;  // first: of one or two choices, placed by choice
  plan::GateWeights weights = plan::GateWeights::usual;
  double scale = 1;  // that weights are multiplied by
  // Of `groups` equal runs of neighbouring experts a token chooses within `top_groups`; these hold k experts or more.
  std::int64_t groups = 1, top_groups = 1;
  // Rows of expert e begin at e * slot_rows; 0: behind those of the expert before it, without gaps.
  std::int64_t slot_rows = 0;
  // Keys of random numbers: token s is position s % sequence of the sequence with the global ordinal samples[s /
  // sequence]; its number for expert e is that of index (ordinal * 2^34) + (position * 2^14) + e, the first word pair
  // of base::random_words as base::uniform53.
  std::uint64_t seed = 0, noise_site = 0, overflow_site = 0;
  const std::uint64_t* samples = nullptr;  // memory of the device; live until the work is done
  std::int64_t sequence = 0;
};

// Filled by gate_forward. Views are dense, on the Exec's device.
struct GateChoice {
  base::View experts;  // i32 [S, k]: the experts that a token chose, in the order of its choices
  base::View rows;     // i32 [S, k]: the row of the expert's rows that it got, -1 where it was dropped
  base::View weights;  // T [S, k]: 0 where it was dropped
  base::View sources;  // i32 [R], R at least the last row in use + 1: token * k + choice; -1 for a row that nobody has
  base::View groups;   // i32 [E, 2]: the first row of each expert, and how many it has
  base::View loads;    // i32 [2, E]: choices of each expert before dropping: all; those that the balance loss counts
  base::View losses;   // f64 [3]: balance and z loss with coefficient 1, and the mean entropy of the gate, in nats
};

// logits T [S, E]; bias T [E] or empty: added to sigmoid scores for the choice.
//
// Choices, ties to the lowest expert: the k largest logits (sigmoid: scores plus bias), in descending order, NaN last.
// With gumbel noise numbers -log(-log(u)) are added, u from (0, 1), 2^-54 where the number is 0: for k = 2 to the
// second choice alone (Lepikhin et al. 2020, "GShard", section 2.2), which is made among the experts but the first;
// else to all. With groups the choice is among the experts of the top_groups that are best by their best expert, of
// sigmoid scores by the sum of their two best, ties to the lowest group, without noise (DeepSeek-AI 2024,
// "DeepSeek-V2", section 2.2.2; "DeepSeek-V3"). Places: an expert takes the first choices before the second ones for k
// = 2, unless placement is by tokens, else all choices alike; in each of these classes it keeps as many as it has
// places left, by the rule of `overflow` (probability: the score of the choice, without bias), and these stand in the
// order of tokens. Second choices stand behind as many places as there were first choices before dropping (GShard,
// algorithm 1). Weights: for k = 1 the score of the choice (Fedus et al. 2021, "Switch transformers", eq. 2); for more
// the scores of those that were kept divided by their sum, so that a single survivor has exactly 1; or as `weights`
// says; all of them times `scale`. Losses: balance E / c * sum over experts of mean_s(p[s, e]) * mean_s(counted choices
// of e), where p is the softmax, or the sigmoid scores divided by their sum, and for k <= 2 the first choices are
// counted, c = 1, else all, c = k (Switch, eq. 4), or as balance_over says. z: mean_s(logsumexp(logits[s])^2) (Zoph et
// al. 2022, "ST-MoE", eq. 5). Entropy is that of p. Their bits do not depend on the number of threads. Arithmetic is
// f64; scores and weights are rounded once, scores that are weights once more where `scale` is not 1. Scratch
// (libtrain/plan/expert_scratch.h): plan::gate_scratch_bytes, plan::gpu_gate_scratch_bytes; the backward pass needs
// none.
void gate_forward(tensor::Exec& exec, const Gate& gate, base::View logits, base::View bias, const GateChoice& choice);

// What the losses weigh: their coefficients, times the target tokens of the gate group (f64 [1] in the device's
// memory), since gradients are those of a sum over target tokens.
struct GateLossScale {
  double balance = 0, z = 0;
  const double* targets = nullptr;
};
// d_logits T [S, E], overwritten: from d_weights T [S, k], the gradient of the choice's weights (of dropped ones it is
// not read), and of the losses; choices, places and loads are held fixed.
void gate_backward(tensor::Exec& exec, const Gate& gate, base::View logits, const GateChoice& choice,
                   base::View d_weights, const GateLossScale& scale, base::View d_logits);

// y [S, h] = x times numbers of [0.99, 1.01), 0.99 + 0.02 u with u keyed as above by (noise_site, channel in place of
// expert), a product in f64; x and y may be the same view. It is its own adjoint. A GPU gives the bits of the CPU.
void gate_jitter(tensor::Exec& exec, const Gate& gate, base::View x, base::View y);

}  // namespace trainyard::kernels
