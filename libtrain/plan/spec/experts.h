// Experts: the settings of a mixture of experts that planner, model and kernels share.
#pragma once

#include <cstdint>

namespace trainyard::plan {

// Which tokens keep their place when more tokens choose an expert than it has places. random: the tokens with the
// largest keyed random numbers. position: the first tokens. probability: the tokens with the highest score. Ties go to
// the lowest token.
enum class Overflow { random, position, probability };

// Noise of the gate, in training only. jitter: the gate's input is multiplied by keyed numbers of [0.99, 1.01). gumbel:
// keyed Gumbel(0, 1) numbers are added to the logits for the choice alone.
enum class GateNoise { none, jitter, gumbel };

// What logits become. softmax: probabilities over all experts. sigmoid: a number of (0, 1) for each expert by itself; a
// bias is added to it for the choice alone.
enum class GateScore { softmax, sigmoid };

// Which choices get the places of an expert first. choices: first choices before second choices, if a token has two
// (Lepikhin et al. 2020, "GShard", algorithm 1). tokens: all choices alike. usual: choices if a token has two, else
// tokens.
enum class GatePlacement { usual, choices, tokens };

// Which choices the balance loss counts. first: only first choices (GShard). all: all choices, divided by their number
// (Megatron-LM; the Mixtral of transformers counts all and does not divide). usual: first if a token has at most two
// choices, else all.
enum class BalanceOver { usual, first, all };

// What the outputs of a token's experts are multiplied by. kept: scores divided by the sum of the scores that got a
// place. chosen: scores divided by the sum of all chosen scores, so dropped choices are missing. scores: not divided.
// usual: scores if one expert is chosen, else kept.
enum class GateWeights { usual, kept, chosen, scores };

// What `usual` means when a token chooses top_k experts.
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
