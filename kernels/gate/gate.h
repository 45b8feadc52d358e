// The gate of a mixture of experts. It chooses each token's experts, the token's row among an expert's rows, and the
// weight of the expert's result; and it has the gradients of these weights.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/plan/spec/experts.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// Settings of one gate group: S tokens, all of one micro-batch; E experts; k choices for each token. T is f32, or f64
// where everything is f64.
struct Gate {
  std::int64_t experts = 1, top_k = 1;
  std::int64_t capacity = 0;  // places of each expert; 0: no limit
  plan::Overflow overflow = plan::Overflow::random;
  plan::GateScore score = plan::GateScore::softmax;
  plan::GateNoise noise = plan::GateNoise::none;  // jitter is applied by gate_jitter, and counts as none here
  plan::GatePlacement placement = plan::GatePlacement::usual;
  plan::BalanceOver balance_over = plan::BalanceOver::usual;  // `first` needs one choice, or two placed by choice
  plan::GateWeights weights = plan::GateWeights::usual;
  double scale = 1;  // factor of all weights
  // The experts form `groups` equal runs of neighbours. A token chooses within `top_groups` of them, which together
  // hold k experts or more.
  std::int64_t groups = 1, top_groups = 1;
  // Rows of expert e begin at e * slot_rows. 0: they follow the rows of the expert before, without gaps.
  std::int64_t slot_rows = 0;
  // Keys of random numbers. Token s is position s % sequence of the sequence with the global ordinal samples[s /
  // sequence]. Its number for expert e has the index (ordinal * 2^34) + (position * 2^14) + e. The number is
  // base::uniform53 of the first word pair of base::random_words.
  std::uint64_t seed = 0, noise_site = 0, overflow_site = 0;
  const std::uint64_t* samples = nullptr;  // device memory; must live until the work is done
  std::int64_t sequence = 0;
};

// What gate_backward reads of a GateChoice.
struct GateChosen {
  base::ConstView experts, rows, weights, loads;
};
// The results of gate_forward. Views are dense, on the Exec's device.
struct GateChoice {
  base::View experts;  // i32 [S, k]: the experts that a token chose, in the order of its choices
  base::View rows;     // i32 [S, k]: the row that each choice got, -1 if it was dropped
  base::View weights;  // T [S, k]: the weight of each choice, 0 if it was dropped
  base::View sources;  // i32 [R], R > the last used row: the row's token * k + choice, -1 for an unused row
  base::View groups;   // i32 [E, 2]: the first row of each expert, and its number of rows
  base::View loads;    // i32 [2, E]: choices of each expert before dropping: all, then those in the balance loss
  base::View losses;   // f64 [3]: balance loss and z loss with coefficient 1, and the gate's mean entropy in nats
  operator GateChosen() const { return {.experts = experts, .rows = rows, .weights = weights, .loads = loads}; }
};

// logits is T [S, E]. bias is T [E], or empty; it is added to sigmoid scores for the choice alone.
//
// Choices: the k largest logits in descending order, for sigmoid the k largest scores plus bias. Ties go to the lowest
// expert; NaN comes last. Gumbel noise adds -log(-log(u)) with u from (0, 1); a random number of 0 counts as 2^-54. For
// k = 2 it is added to the second choice alone (Lepikhin et al. 2020, "GShard", section 2.2), which is made among all
// experts but the first choice. For other k it is added to all choices. With groups, a token chooses among the experts
// of its top_groups best groups. A group is ranked by its best expert, with sigmoid scores by the sum of its two best;
// without noise; ties go to the lowest group (DeepSeek-AI 2024, "DeepSeek-V2", section 2.2.2; "DeepSeek-V3").
//
// Places: for k = 2 an expert serves first choices before second choices, unless placement is by tokens. Otherwise all
// choices are one class. In each class an expert keeps as many choices as it has places left, by the rule of `overflow`
// (probability: the score of the choice, without bias). Kept choices get rows in the order of tokens. Second choices
// come behind as many places as there were first choices before dropping (GShard, algorithm 1).
//
// Weights: for k = 1 the score of the choice (Fedus et al. 2021, "Switch transformers", eq. 2). For larger k, the
// scores of the kept choices divided by their sum, so that a single survivor has exactly 1. `weights` may name another
// rule. All weights are multiplied by `scale`.
//
// Losses: p is the softmax, or the sigmoid scores divided by their sum. The balance loss is E / c * sum over experts of
// mean_s(p[s, e]) * mean_s(counted choices of e). For k <= 2 it counts the first choices and c = 1; otherwise all
// choices and c = k (Switch, eq. 4); or as balance_over says. The z loss is mean_s(logsumexp(logits[s])^2) (Zoph et al.
// 2022, "ST-MoE", eq. 5). The entropy is the entropy of p. The bits of the losses do not depend on the number of
// threads.
//
// Arithmetic is f64. Scores and weights are rounded once; scores that are weights are rounded again if `scale` is not
// 1. Scratch (libtrain/plan/blocks/expert_scratch.h): plan::gate_scratch_bytes, plan::gpu_gate_scratch_bytes.
// gate_backward needs none.
void gate_forward(tensor::Exec& exec, const Gate& gate, base::ConstView logits, base::ConstView bias,
                  const GateChoice& choice);

// Factors of the losses in the gradient: their coefficients, multiplied by the target tokens of the gate group (f64 [1]
// in the device's memory). That product is needed because all gradients are gradients of a sum over target tokens.
struct GateLossScale {
  double balance = 0, z = 0;
  const double* targets = nullptr;
};
// d_logits is overwritten by the gradient through the weights and of the losses. Choices, places and loads are treated
// as constants.
struct GateBackward {
  Gate gate;
  base::ConstView logits;     // T [S, E]
  GateChosen choice;          // as gate_forward left it
  base::ConstView d_weights;  // T [S, k], the gradient of the choice's weights; entries of dropped choices are not read
  GateLossScale scale = {};
  base::View d_logits;  // T [S, E]
};
void gate_backward(tensor::Exec& exec, const GateBackward& gate);

// y [S, h] = x times random factors 0.99 + 0.02 u, which lie in [0.99, 1.01). u is keyed as above, by noise_site and
// with the channel in place of the expert. The product is computed in f64. x and y may be the same view. The jitter is
// its own adjoint. A GPU gives the bits of the CPU.
void gate_jitter(tensor::Exec& exec, const Gate& gate, base::ConstView x, base::View y);

}  // namespace trainyard::kernels
