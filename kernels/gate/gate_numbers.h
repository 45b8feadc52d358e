// The gate's arithmetic, the same on every device: keys, noise, scores, places, and the weights of kept choices. It is
// f64, rounded once to T, so that devices make the same choices. In an unnamed namespace, so that each compiled variant
// has its own copy.
#pragma once

#include "kernels/gate/gate_args.h"
#include "kernels/philox_words.h"

namespace trainyard::kernels {
namespace {

TRAINYARD_ANYWHERE inline double gate_exp(double x) {
#ifdef __CUDA_ARCH__
  return exp(x);
#else
  return __builtin_exp(x);
#endif
}
TRAINYARD_ANYWHERE inline double gate_log(double x) {
#ifdef __CUDA_ARCH__
  return log(x);
#else
  return __builtin_log(x);
#endif
}

// The random-number index of token s; an expert or a channel is added to it.
TRAINYARD_ANYWHERE inline std::uint64_t gate_index(const GateKeys& keys, std::int64_t s) {
  return (keys.samples[s / keys.sequence] << 34) + (static_cast<std::uint64_t>(s % keys.sequence) << 14);
}
// base::uniform53 of the first two words; both parts are exact.
TRAINYARD_ANYWHERE inline double gate_uniform(const Words& w) {
  return static_cast<double>(w.w[0]) * 0x1p-32 + static_cast<double>(w.w[1] >> 11) * 0x1p-53;
}
TRAINYARD_ANYWHERE inline double gate_gumbel(const GateArgs& a, std::int64_t s, std::int64_t e) {
  const double u =
      gate_uniform(philox_words(a.keys.seed, a.keys.noise_site, gate_index(a.keys, s) + static_cast<std::uint64_t>(e)));
  return -gate_log(-gate_log(u > 0 ? u : 0x1p-54));
}

// Never 0, so that a sum of scores can be a divisor; NaN stays NaN.
TRAINYARD_ANYWHERE inline double gate_sigmoid(double x) {
  const double small = gate_exp(x < 0 ? x : -x), score = (x < 0 ? small : 1.0) / (1.0 + small);
  return score < 0x1p-1022 ? 0x1p-1022 : score;
}

// The number that a choice compares, without noise. NaN ranks below everything, so that k experts are always found.
template <class T> TRAINYARD_ANYWHERE inline double gate_rank(const GateArgs& a, const T* logits, std::int64_t e) {
  double rank = static_cast<double>(logits[e]);
  if (a.score == plan::GateScore::sigmoid) {
    rank = gate_sigmoid(rank);
    if (a.bias != nullptr) rank += static_cast<double>(static_cast<const T*>(a.bias)[e]);
  }
  return rank == rank ? rank : -__builtin_inf();
}
template <class T>
TRAINYARD_ANYWHERE inline double gate_noisy_rank(const GateArgs& a, const T* logits, std::int64_t s, std::int64_t e) {
  const double rank = gate_rank(a, logits, e);
  return a.noise == plan::GateNoise::gumbel ? rank + gate_gumbel(a, s, e) : rank;
}
// The number that the choice of groups compares (kernels/gate/gate.h).
template <class T>
TRAINYARD_ANYWHERE inline double gate_group_rank(const GateArgs& a, const T* logits, std::int64_t group) {
  const auto size = a.experts / a.expert_groups;
  double best = -__builtin_inf(), second = best;
  for (auto e = group * size; e < (group + 1) * size; ++e) {
    const double rank = gate_rank(a, logits, e);
    if (rank > best) second = best, best = rank;
    else if (rank > second) second = rank;
  }
  return a.score == plan::GateScore::sigmoid && size > 1 ? best + second : best;
}
// The rank of an expert, or minus infinity if its group is not in `open`, where bit g is group g.
TRAINYARD_ANYWHERE inline double gate_within(const GateArgs& a, std::uint64_t open, std::int64_t e, double rank) {
  return a.expert_groups == 1 || (open >> (e / (a.experts / a.expert_groups)) & 1) != 0 ? rank : -__builtin_inf();
}
// Whether a token's first choice uses no noise while its second does.
TRAINYARD_ANYWHERE inline bool gate_first_is_clean(const GateArgs& a) {
  return a.top_k == 2 && a.noise == plan::GateNoise::gumbel;
}

// Classes of choices: first and second choices of k = 2 may be two classes; otherwise there is one. A slot is a class
// and an expert.
TRAINYARD_ANYWHERE inline std::int64_t gate_classes(const GateArgs& a) { return a.by_choice ? 2 : 1; }
TRAINYARD_ANYWHERE inline std::int64_t gate_slot(const GateArgs& a, std::int64_t choice) {
  const auto expert = static_cast<std::int64_t>(a.chosen[choice]);
  return a.by_choice && choice % 2 == 1 ? a.experts + expert : expert;
}
TRAINYARD_ANYWHERE inline std::int64_t gate_slot_begin(const GateForwardArgs& a, std::int64_t slot) {
  return slot == 0 ? 0 : a.ends[slot - 1];
}
TRAINYARD_ANYWHERE inline std::int64_t gate_wanted(const GateForwardArgs& a, std::int64_t slot) {
  return a.ends[slot] - gate_slot_begin(a, slot);
}
// How many of `wanted` choices are kept, where earlier classes wanted `before` places.
TRAINYARD_ANYWHERE inline std::int64_t gate_kept(const GateArgs& a, std::int64_t wanted, std::int64_t before) {
  if (a.capacity == 0) return wanted;
  const auto left = a.capacity > before ? a.capacity - before : 0;
  return wanted < left ? wanted : left;
}
// The key that ranks an expert's choices where places are short; the largest keys are kept. Scores are not negative, so
// their bits compare as the scores do.
template <class T> TRAINYARD_ANYWHERE inline std::uint64_t gate_overflow_key(const GateForwardArgs& a,
                                                                             std::int64_t choice, std::int64_t e) {
  if (a.overflow == plan::Overflow::random) {
    const auto w = philox_words(a.keys.seed, a.keys.overflow_site,
                                gate_index(a.keys, choice / a.top_k) + static_cast<std::uint64_t>(e));
    return (static_cast<std::uint64_t>(w.w[0]) << 32 | w.w[1]) >> 11;
  }
  const double score = static_cast<double>(static_cast<const T*>(a.scores)[choice]);
  std::uint64_t bits;
  __builtin_memcpy(&bits, &score, 8);
  return bits;
}

// These follow from `ends` alone: an expert's number of rows; and, given its first row, its loads and its group.
TRAINYARD_ANYWHERE inline std::int64_t gate_rows_of(const GateForwardArgs& a, std::int64_t e) {
  const auto first = gate_wanted(a, e), second = gate_classes(a) == 2 ? gate_wanted(a, a.experts + e) : 0;
  return gate_kept(a, first, 0) + gate_kept(a, second, first);
}
TRAINYARD_ANYWHERE inline void gate_put_group(const GateForwardArgs& a, std::int64_t e, std::int64_t first_row) {
  const auto first = gate_wanted(a, e), second = gate_classes(a) == 2 ? gate_wanted(a, a.experts + e) : 0;
  a.to.loads[e] = static_cast<std::int32_t>(first + second);
  a.to.loads[a.experts + e] = static_cast<std::int32_t>(a.balance_all ? first + second : first);
  a.to.groups[2 * e] = static_cast<std::int32_t>(a.slot_rows > 0 ? e * a.slot_rows : first_row);
  a.to.groups[2 * e + 1] = static_cast<std::int32_t>(gate_rows_of(a, e));
}

// gate_balance_part: an expert's part of the balance loss, from the sum of its probabilities. gate_put_losses: all
// losses, from the sum of these parts and from sums over all tokens, first of squared logsumexp, then of entropy.
TRAINYARD_ANYWHERE inline double gate_balance_part(const GateArgs& a, std::int64_t e, double probabilities) {
  const auto tokens = static_cast<double>(a.tokens);
  return probabilities / tokens * (static_cast<double>(a.loads[a.experts + e]) / tokens);
}
TRAINYARD_ANYWHERE inline void gate_put_losses(const GateForwardArgs& a, double balance, const double* sums) {
  a.to.losses[0] = static_cast<double>(a.experts) / static_cast<double>(a.balance_all ? a.top_k : 1) * balance;
  a.to.losses[1] = sums[0] / static_cast<double>(a.tokens);
  a.to.losses[2] = sums[1] / static_cast<double>(a.tokens);
}
// The balance loss's gradient with respect to an expert's probability, for each choice that the loss counts.
TRAINYARD_ANYWHERE inline double gate_balance_slope(const GateBackwardArgs& a) {
  if (a.balance == 0) return 0;
  const auto tokens = static_cast<double>(a.tokens), counted = static_cast<double>(a.balance_all ? a.top_k : 1);
  return a.balance * *a.targets * static_cast<double>(a.experts) / (counted * tokens * tokens);
}

// The choices of a token whose scores are added up as a divisor: the kept choices, or all. Softmax scores divided by
// their sum are the softmax of these choices' logits. That has a value even where all scores underflow, and its
// gradient reaches no other logit.
struct GateSurvivors {
  double top = 0, sum = 0;
};
template <class T> TRAINYARD_ANYWHERE inline double gate_part(const GateArgs& a, const T* logits, std::int64_t choice,
                                                              const GateSurvivors& of) {
  const double x = static_cast<double>(logits[a.chosen[choice]]);
  return a.score == plan::GateScore::sigmoid ? gate_sigmoid(x) : gate_exp(x - of.top);
}
template <class T>
TRAINYARD_ANYWHERE inline GateSurvivors gate_survivors(const GateArgs& a, const T* logits, std::int64_t s) {
  GateSurvivors of;
  bool any = false;
  const auto counts = [&](std::int64_t c) { return a.rows[c] >= 0 || a.weigh == plan::GateWeights::chosen; };
  for (auto c = s * a.top_k; c < (s + 1) * a.top_k; ++c) {
    if (!counts(c)) continue;
    const double x = static_cast<double>(logits[a.chosen[c]]);
    of.top = any && of.top > x ? of.top : x;
    any = true;
  }
  for (auto c = s * a.top_k; c < (s + 1) * a.top_k; ++c)
    if (counts(c)) of.sum += gate_part(a, logits, c, of);
  return of;
}
template <class T> TRAINYARD_ANYWHERE inline void gate_weigh(const GateForwardArgs& a, std::int64_t s) {
  const T* logits = a.logits.row<T>(s);
  T* weights = static_cast<T*>(a.to.weights);
  GateSurvivors of;
  const bool divided = a.weigh != plan::GateWeights::scores;
  if (divided) of = gate_survivors(a, logits, s);
  for (auto c = s * a.top_k; c < (s + 1) * a.top_k; ++c) {
    if (a.rows[c] < 0) weights[c] = T(0);
    else if (!divided) weights[c] = static_cast<T>(a.scale * static_cast<double>(static_cast<const T*>(a.scores)[c]));
    else weights[c] = static_cast<T>(a.scale * (gate_part(a, logits, c, of) / of.sum));
  }
}
// The gradient from d_weights at the logits of the experts that token s chose: calls add(expert, slope) for each. It
// leaves out undivided softmax scores, because they depend on every logit (gate_score_slope).
template <class T, class Add>
TRAINYARD_ANYWHERE inline void gate_weight_slopes(const GateBackwardArgs& a, std::int64_t s, const Add& add) {
  const T *logits = a.logits.row<T>(s), *slopes = a.d_weights.row<T>(s);
  const bool sigmoid = a.score == plan::GateScore::sigmoid, divided = a.weigh != plan::GateWeights::scores;
  if (!divided && !sigmoid) return;
  GateSurvivors of{0, 1};
  double along = 0;
  const auto first = s * a.top_k;
  if (divided) {
    of = gate_survivors(a, logits, s);
    for (std::int64_t j = 0; j < a.top_k; ++j)
      if (a.rows[first + j] >= 0)
        along += static_cast<double>(slopes[j]) * (gate_part(a, logits, first + j, of) / of.sum);
  }
  for (std::int64_t j = 0; j < a.top_k; ++j) {
    const bool kept = a.rows[first + j] >= 0;
    if (!kept && a.weigh != plan::GateWeights::chosen) continue;
    const double part = gate_part(a, logits, first + j, of);
    const double of_part = a.scale * ((kept ? static_cast<double>(slopes[j]) : 0) - along) / of.sum;
    add(static_cast<std::int64_t>(a.chosen[first + j]), of_part * part * (sigmoid ? 1 - part : 1));
  }
}
// Undivided softmax scores: the gradient from d_weights at the probability of expert e.
template <class T>
TRAINYARD_ANYWHERE inline double gate_score_slope(const GateBackwardArgs& a, std::int64_t s, std::int64_t e) {
  double slope = 0;
  if (a.weigh != plan::GateWeights::scores || a.score == plan::GateScore::sigmoid) return slope;
  for (std::int64_t j = 0; j < a.top_k; ++j)
    if (a.chosen[s * a.top_k + j] == e && a.rows[s * a.top_k + j] >= 0)
      slope = a.scale * static_cast<double>(a.d_weights.row<T>(s)[j]);
  return slope;
}

}  // namespace
}  // namespace trainyard::kernels
