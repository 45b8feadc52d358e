// Experts: the words of a mixture of experts that planner, model and kernels share.
#pragma once

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

}  // namespace trainyard::plan
