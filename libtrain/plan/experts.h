// Experts: the words of a mixture of experts that planner, model and kernels share.
#pragma once

#include <cstdint>

namespace trainyard::plan {

// Which tokens keep their place when more choose an expert than it has places for. random: those with the largest
// keyed random numbers; position: who comes first; probability: those of which the gate is surest. Of equals the lowest
// token.
enum class Overflow { random, position, probability };

// In training only. jitter: the gate's input is multiplied by keyed numbers of [0.99, 1.01); gumbel: keyed Gumbel(0, 1)
// numbers are added to the logits for the choice alone.
enum class GateNoise { none, jitter, gumbel };

// What logits become: probabilities over all experts, or a number of (0, 1) for each by itself, to which a bias is
// added for the choice alone.
enum class GateScore { softmax, sigmoid };

// Who gets a place of an expert first. choices: first choices before second ones, for two choices of a token (Lepikhin
// et al. 2020, "GShard", algorithm 1); tokens: all choices alike. usual: choices for two of them, else tokens.
enum class GatePlacement { usual, choices, tokens };

// Which choices the balance loss counts: first ones (GShard), or all, divided by their number (Megatron-LM; the Mixtral
// of transformers counts all, and does not divide). usual: first ones up to two choices of a token, else all.
enum class BalanceOver { usual, first, all };

// What the outputs of a token's experts are multiplied by. kept: scores divided by the sum of those that got a place;
// chosen: by the sum of all that were chosen, so that what is dropped is missing; scores: not divided. usual: scores
// where one expert is chosen, else kept.
enum class GateWeights { usual, kept, chosen, scores };

// What `usual` means for so many choices of a token.
constexpr bool places_by_choice(GatePlacement placement, std::int64_t top_k) {
  return top_k == 2 && placement != GatePlacement::tokens;
}
constexpr bool balances_all(BalanceOver over, std::int64_t top_k) {
  return over == BalanceOver::all || (over == BalanceOver::usual && top_k > 2);
}
// The most groups of a group-limited choice.
inline constexpr std::int64_t most_gate_groups = 64;
constexpr GateWeights weights_of(GateWeights weights, std::int64_t top_k) {
  if (weights != GateWeights::usual) return weights;
  return top_k == 1 ? GateWeights::scores : GateWeights::kept;
}

}  // namespace trainyard::plan
