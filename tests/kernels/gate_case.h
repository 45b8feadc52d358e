// A gate with its inputs and the buffers that it fills, for gate tests on the CPU and on a GPU.
#pragma once

#include "kernels/gate/gate.h"
#include "tests/kernels/matrix_buffer.h"

#include <algorithm>
#include <random>
#include <vector>

namespace trainyard::test {

// Buffers on the host, with any number of threads. It has the interface of Place in tests/kernels/gpu_place.h.
struct Host {
  Bench bench;
  explicit Host(int threads, std::int64_t bytes = 64 << 20) : bench(threads, bytes) {}
  tensor::Exec& exec() { return *bench; }
  base::View operator()(MatrixBuffer& m) const { return m.view(); }
  template <class T> base::View operator()(std::vector<T>& values, std::initializer_list<std::int64_t> shape) const {
    return base::View::of(values.data(), shape);
  }
  void fetch() {}
};

struct GateCase {
  DType t;
  std::int64_t tokens, experts, k;
  kernels::Gate gate;
  bool biased = false;
  MatrixBuffer logits, bias, weights, d_weights, d_logits;
  std::vector<std::int32_t> chosen, rows, sources, groups, loads;
  std::vector<double> losses, targets;
  std::vector<std::uint64_t> samples;
  kernels::GateLossScale scale;

  // Allocates `spare` rows more than the experts can have. `g` already has capacity and slot_rows.
  GateCase(DType type, std::int64_t s, std::int64_t e, std::int64_t choices, kernels::Gate g, std::int64_t spare = 0)
      : t(type), tokens(s), experts(e), k(choices), gate(g), logits(type, s, e, 2), bias(type, 1, e),
        weights(type, s, choices), d_weights(type, s, choices, 1), d_logits(type, s, e, 3),
        chosen(static_cast<std::size_t>(s * choices), -77), rows(chosen), groups(static_cast<std::size_t>(2 * e), -77),
        loads(groups), losses(3, -77), targets{37} {
    gate.experts = e, gate.top_k = choices;
    const auto most = gate.capacity > 0 ? std::min(choices * s, e * gate.capacity) : choices * s;
    sources.assign(static_cast<std::size_t>((gate.slot_rows > 0 ? e * gate.slot_rows : most) + spare), -77);
    samples_in_sequences_of(s);
  }
  void samples_in_sequences_of(std::int64_t sequence) {
    gate.sequence = sequence;
    samples.clear();
    for (std::int64_t i = 0; i < tokens / sequence; ++i) samples.push_back(static_cast<std::uint64_t>(1000 - 7 * i));
  }
  // Numbers in [-2, 2). With a grid they are rounded to its multiples, so that ties occur.
  GateCase& fill(std::uint64_t seed, double grid = 0) {
    std::mt19937_64 random(seed);
    const auto number = [&] {
      const double v = static_cast<double>(random() >> 11) * 0x1p-51 - 2;
      return grid > 0 ? std::round(v / grid) * grid : v;
    };
    for (std::int64_t s = 0; s < tokens; ++s)
      for (std::int64_t e = 0; e < experts; ++e) logits.set(s, e, number());
    for (std::int64_t e = 0; e < experts; ++e) bias.set(0, e, number() / 8);
    return *this;
  }

  template <class P> kernels::Gate gate_at(P& place) {
    auto g = gate;
    g.samples = place(samples, {static_cast<std::int64_t>(samples.size())}).template ptr<std::uint64_t>();
    return g;
  }
  template <class P> kernels::GateChoice choice_at(P& place) {
    kernels::GateChoice c;
    c.experts = place(chosen, {tokens, k}), c.rows = place(rows, {tokens, k}), c.weights = place(weights);
    c.sources = place(sources, {static_cast<std::int64_t>(sources.size())});
    c.groups = place(groups, {experts, 2}), c.loads = place(loads, {2, experts}), c.losses = place(losses, {3});
    return c;
  }
  template <class P> void forward(P& place) {
    kernels::gate_forward(place.exec(), gate_at(place), place(logits), biased ? place(bias) : base::View{},
                          choice_at(place));
    place.fetch();
  }
  template <class P> void backward(P& place) {
    auto to = scale;
    to.targets = place(targets, {1}).template ptr<double>();
    kernels::gate_backward(place.exec(), {.gate = gate_at(place),
                                          .logits = place(logits),
                                          .choice = choice_at(place),
                                          .d_weights = place(d_weights),
                                          .scale = to,
                                          .d_logits = place(d_logits)});
    place.fetch();
  }
  // Slopes of kept choices. A dropped choice has NaN, because the gate must not read it.
  void fill_slopes(std::uint64_t seed) {
    d_weights.fill(seed);
    for (std::int64_t s = 0; s < tokens; ++s)
      for (std::int64_t j = 0; j < k; ++j)
        if (row(s, j) < 0) d_weights.set(s, j, std::numeric_limits<double>::quiet_NaN());
  }
  std::int32_t expert(std::int64_t s, std::int64_t j) const { return chosen[static_cast<std::size_t>(s * k + j)]; }
  std::int32_t row(std::int64_t s, std::int64_t j) const { return rows[static_cast<std::size_t>(s * k + j)]; }
  std::int32_t group(std::int64_t e, std::int64_t i) const { return groups[static_cast<std::size_t>(2 * e + i)]; }
};

// Sets explicit rules that are allowed with k choices.
inline void other_rules(kernels::Gate& g, std::int64_t k, std::uint64_t seed) {
  using plan::GatePlacement, plan::BalanceOver, plan::GateWeights;
  const bool by_tokens = seed % 2 == 0 || k > 2;
  g.placement = by_tokens ? GatePlacement::tokens : k == 2 ? GatePlacement::choices : GatePlacement::usual;
  g.balance_over = (k == 2 && by_tokens) || seed / 2 % 2 == 0 ? BalanceOver::all : BalanceOver::usual;
  g.weights = k == 1 ? GateWeights::usual : static_cast<GateWeights>(seed / 4 % 4);
}

// Sets a number of groups that divides the experts, and how many of them a token's k choices may use. Some seeds give
// one group.
inline void some_groups(kernels::Gate& g, std::int64_t experts, std::int64_t k, std::uint64_t seed) {
  g.scale = seed % 3 == 0 ? 2.5 : 1;
  g.groups = 1 + static_cast<std::int64_t>(seed / 3 % static_cast<std::uint64_t>(experts));
  while (experts % g.groups != 0) --g.groups;
  const auto size = experts / g.groups, least = (k + size - 1) / size;
  g.top_groups = least + static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(g.groups - least + 1));
}

// Cases of every kind: sizes, rules, noise, scores, capacities and layouts. Between equal probabilities rounding in f64
// would decide, so such cases have no grid.
inline GateCase random_gate(std::uint64_t seed, DType t, std::int64_t most_tokens = 70, std::int64_t most_experts = 9) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const auto sequence = 1 + below(most_tokens), sequences = 1 + below(most_tokens / sequence);
  const auto tokens = sequence * sequences, experts = 1 + below(most_experts);
  const auto k = below(3) == 0 ? std::min<std::int64_t>(2, experts) : 1 + below(experts);
  kernels::Gate g;
  g.overflow = static_cast<plan::Overflow>(below(3));
  g.noise = static_cast<plan::GateNoise>(below(3));
  g.score = static_cast<plan::GateScore>(below(2));
  const auto fair = k * tokens / experts;
  g.capacity = below(4) == 0 ? 0 : below(3) == 0 ? 1 + below(2) : 1 + below(2 * fair + 2);
  g.slot_rows = below(2) == 0 ? 0 : (g.capacity > 0 ? g.capacity : tokens) + below(3);
  g.seed = 11 + seed, g.noise_site = 5, g.overflow_site = 6;
  if (below(2) == 0) other_rules(g, k, static_cast<std::uint64_t>(below(1000)));
  if (below(2) == 0) some_groups(g, experts, k, static_cast<std::uint64_t>(below(1000)));
  GateCase c(t, tokens, experts, k, g, below(4));
  c.samples_in_sequences_of(sequence);
  if (below(3) == 0)  // the same random numbers twice
    for (auto& s : c.samples) s = 9;
  c.biased = g.score == plan::GateScore::sigmoid && below(2) == 0;
  c.fill(seed, g.overflow == plan::Overflow::probability && t == DType::f64 ? 0 : below(2) == 0 ? 0.25 : 0);
  return c;
}

}  // namespace trainyard::test
