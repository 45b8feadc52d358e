// Compares the gate with known values and with a sorting oracle in double, and its gradients with differences.
#include "kernels/gate/gate.h"
#include "libtrain/base/random.h"
#include "libtrain/plan/blocks/expert_scratch.h"
#include "tests/kernels/gate_case.h"
#include "tests/kernels/sweep.h"

#include <map>
#include <set>

namespace trainyard::test {
namespace gate_test {

using plan::GateNoise;
using plan::GateScore;
using plan::Overflow;

const DType gate_types[] = {DType::f32, DType::f64};

struct Place4 {
  std::int64_t token, expert, place;
  double weight;
};
// Eight tokens for four experts. Their places are known from other systems.
GateCase known_case(DType t, std::int64_t k, std::int64_t capacity, std::int64_t slot_rows) {
  const double values[8][4] = {{.11, .2, .1, .3}, {.3, .4, .11, .1}, {.11, .1, .6, .5}, {.1, .11, .7, .8},
                               {.9, .1, .2, .3},  {.5, .9, .1, .2},  {.2, .3, .95, .1}, {.05, .4, .3, .2}};
  kernels::Gate g;
  g.capacity = capacity, g.slot_rows = slot_rows, g.overflow = Overflow::position;
  GateCase c(t, 8, 4, k, g);
  for (std::int64_t s = 0; s < 8; ++s)
    for (std::int64_t e = 0; e < 4; ++e) c.logits.set(s, e, values[s][e]);
  return c;
}
void check_known(std::int64_t k, std::int64_t capacity, const std::vector<std::int32_t>& wanted, double loss,
                 const std::vector<Place4>& places) {
  on_every_path([&] {
    for (auto t : gate_types)
      for (std::int64_t slot_rows : {0, 4}) {
        auto c = known_case(t, k, capacity, slot_rows);
        Host host(2);
        c.forward(host);
        EXPECT_EQ(std::vector<std::int32_t>(c.loads.begin(), c.loads.begin() + 4), wanted);
        if (loss > 0) {
          EXPECT_NEAR(c.losses[0], loss, 1e-7);
        }
        std::size_t kept = 0;
        for (auto r : c.rows) kept += r >= 0 ? 1 : 0;
        EXPECT_EQ(kept, places.size());
        for (const auto& p : places) {
          std::int64_t j = 0;
          while (j < k && c.expert(p.token, j) != p.expert) ++j;
          ASSERT_LT(j, k) << "token " << p.token << " did not choose " << p.expert;
          EXPECT_EQ(c.row(p.token, j), c.group(p.expert, 0) + p.place) << "token " << p.token;
          EXPECT_NEAR(c.weights(p.token, j), p.weight, 6e-7) << "token " << p.token << " expert " << p.expert;
        }
        for (std::int64_t e = 0; e < 4 && slot_rows > 0; ++e) EXPECT_EQ(c.group(e, 0), e * slot_rows);
      }
  });
}

TEST(Gate, KnownPlacesOfOneChoice) {
  check_known(1, 4, {1, 3, 2, 2}, 1.0038546,
              {{0, 3, 0, .281648},
               {1, 1, 0, .294645},
               {2, 2, 0, .320103},
               {3, 3, 1, .344471},
               {4, 0, 0, .400846},
               {5, 1, 1, .382229},
               {6, 2, 1, .412911},
               {7, 1, 2, .291693}});
}
TEST(Gate, KnownPlacesOfTwoChoices) {
  check_known(2, 4, {3, 5, 4, 4}, 0,
              {{0, 1, 3, .475021},
               {0, 3, 0, .524979},
               {1, 0, 1, .475021},
               {1, 1, 0, .524979},
               {2, 2, 0, .524979},
               {2, 3, 2, .475021},
               {3, 2, 2, .475021},
               {3, 3, 1, .524979},
               {4, 0, 0, .645656},
               {4, 3, 3, .354344},
               {5, 0, 2, .401312},
               {5, 1, 1, .598688},
               {6, 2, 1, 1.0},
               {7, 1, 2, .524979},
               {7, 2, 3, .475021}});
}
TEST(Gate, KnownPlacesOfThreeChoices) {
  check_known(3, 3, {6, 6, 6, 6}, 1.0,
              {{0, 0, 0, .302716},
               {0, 1, 0, .331224},
               {0, 3, 0, .366059},
               {1, 0, 1, .341049},
               {1, 1, 1, .376917},
               {1, 2, 0, .282034},
               {2, 0, 2, .243351},
               {2, 2, 1, .397225},
               {2, 3, 1, .359424},
               {3, 1, 2, .208433},
               {3, 2, 2, .376011},
               {3, 3, 2, .415556}});
}

// Eight experts in four groups; a token's three choices are from two groups. With softmax a group's best expert ranks
// it, with sigmoid scores the sum of its two best.
TEST(Gate, ChoosesWithinTheBestGroups) {
  on_every_path([&] {
    for (auto t : gate_types)
      for (auto score : {GateScore::softmax, GateScore::sigmoid}) {
        kernels::Gate g;
        g.score = score, g.groups = 4, g.top_groups = 2, g.scale = 16;
        GateCase c(t, 1, 8, 3, g);
        for (std::int64_t e = 0; e < 8; ++e)
          c.logits.set(0, e, std::array{5.0, 1.0, 4.0, 3.875, 4.5, 0.0, -1.0, -2.0}[static_cast<std::size_t>(e)]);
        Host host(1);
        c.forward(host);
        const bool softmax = score == GateScore::softmax;
        EXPECT_EQ(c.chosen, softmax ? std::vector<std::int32_t>({0, 4, 1}) : std::vector<std::int32_t>({0, 2, 3}));
        EXPECT_NEAR(c.weights(0, 0) + c.weights(0, 1) + c.weights(0, 2), 16, 1e-5);
        c.gate.groups = c.gate.top_groups = 1;
        c.forward(host);
        EXPECT_EQ(c.chosen, std::vector<std::int32_t>({0, 4, 2}));
      }
  });
}

// All that a gate fills, computed in double by sorting.
struct Oracle {
  std::vector<std::int32_t> chosen, rows, sources, groups, loads;
  std::vector<double> weights, losses{0, 0, 0};
};

std::array<std::uint32_t, 4> words_of(const GateCase& c, std::uint64_t site, std::int64_t s, std::int64_t column) {
  const auto ordinal = c.samples[static_cast<std::size_t>(s / c.gate.sequence)];
  const auto position = static_cast<std::uint64_t>(s % c.gate.sequence);
  return base::random_words(c.gate.seed, site, (ordinal << 34) + (position << 14) + static_cast<std::uint64_t>(column));
}
double uniform_of(const GateCase& c, std::uint64_t site, std::int64_t s, std::int64_t column) {
  const auto w = words_of(c, site, s, column);
  return base::uniform53(w[0], w[1]);
}

struct Scores {
  std::vector<double> score, probability;
  double logsumexp = 0;
};
Scores scores_of(const GateCase& c, std::int64_t s) {
  Scores out;
  double sum = 0, of_scores = 0;
  for (std::int64_t e = 0; e < c.experts; ++e) sum += std::exp(c.logits(s, e));
  for (std::int64_t e = 0; e < c.experts; ++e) {
    const double x = c.logits(s, e);
    out.score.push_back(c.gate.score == GateScore::softmax ? std::exp(x) / sum : 1 / (1 + std::exp(-x)));
    of_scores += out.score.back();
  }
  for (double v : out.score) out.probability.push_back(v / of_scores);
  out.logsumexp = std::log(sum);
  return out;
}

// Experts in descending order of a number.
std::vector<std::int32_t> sorted_experts(const std::vector<double>& by) {
  std::vector<std::int32_t> order;
  for (std::size_t e = 0; e < by.size(); ++e) order.push_back(static_cast<std::int32_t>(e));
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return by[static_cast<std::size_t>(a)] > by[static_cast<std::size_t>(b)]; });
  return order;
}
std::vector<std::int32_t> choices_of(const GateCase& c, std::int64_t s, const Scores& scores) {
  std::vector<double> clean, noisy;
  for (std::int64_t e = 0; e < c.experts; ++e) {
    clean.push_back(c.gate.score == GateScore::softmax ? c.logits(s, e) : scores.score[static_cast<std::size_t>(e)]);
    if (c.biased) clean.back() += c.bias(0, e);
    const double u = uniform_of(c, c.gate.noise_site, s, e);
    noisy.push_back(clean.back() + (c.gate.noise == GateNoise::gumbel ? -std::log(-std::log(u)) : 0));
  }
  const auto size = static_cast<std::size_t>(c.experts / c.gate.groups);
  std::vector<double> groups;
  for (std::size_t first = 0; first < clean.size(); first += size) {
    std::vector<double> of_group(clean.begin() + static_cast<std::ptrdiff_t>(first),
                                 clean.begin() + static_cast<std::ptrdiff_t>(first + size));
    std::sort(of_group.rbegin(), of_group.rend());
    groups.push_back(of_group[0] + (c.gate.score == GateScore::sigmoid && size > 1 ? of_group[1] : 0));
  }
  const auto best = sorted_experts(groups);
  for (auto i = static_cast<std::size_t>(c.gate.top_groups); i < best.size(); ++i)
    for (std::size_t e = 0; e < size; ++e)
      for (auto* ranks : {&clean, &noisy})
        (*ranks)[static_cast<std::size_t>(best[i]) * size + e] = -std::numeric_limits<double>::infinity();
  auto all = sorted_experts(noisy);
  if (c.k == 2) {
    const auto first = sorted_experts(clean)[0];
    std::erase(all, first);
    all.insert(all.begin(), first);
  }
  all.resize(static_cast<std::size_t>(c.k));
  return all;
}

// The rules, with their defaults resolved (plan/spec/experts.h).
struct Rules {
  bool by_choice, all;
  plan::GateWeights weights;
  explicit Rules(const GateCase& c)
      : by_choice(c.k == 2 && c.gate.placement != plan::GatePlacement::tokens),
        all(c.k > 2 || c.gate.balance_over == plan::BalanceOver::all), weights(c.gate.weights) {
    if (weights == plan::GateWeights::usual) weights = c.k == 1 ? plan::GateWeights::scores : plan::GateWeights::kept;
  }
};

Oracle oracle_of(const GateCase& c) {
  Oracle o;
  const Rules rules(c);
  std::vector<Scores> scores;
  const auto choices = static_cast<std::size_t>(c.tokens * c.k);
  for (std::int64_t s = 0; s < c.tokens; ++s) {
    scores.push_back(scores_of(c, s));
    for (auto e : choices_of(c, s, scores.back())) o.chosen.push_back(e);
  }
  o.rows.assign(choices, -1), o.weights.assign(choices, 0), o.sources.assign(c.sources.size(), -1);
  o.loads.assign(static_cast<std::size_t>(2 * c.experts), 0);
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::int32_t next = 0;
  for (std::int64_t e = 0; e < c.experts; ++e) {
    const auto first = c.gate.slot_rows > 0 ? static_cast<std::int32_t>(e * c.gate.slot_rows) : next;
    std::int32_t row = first;
    std::int64_t wanted_before = 0;
    for (int number = 0; number < (rules.by_choice ? 2 : 1); ++number) {
      // The key and choice of every choice of this class for expert e.
      std::vector<std::pair<double, std::int64_t>> those;
      for (std::int64_t i = 0; i < c.tokens * c.k; ++i) {
        if (o.chosen[at(i)] != e || (rules.by_choice && i % 2 != number)) continue;
        const double score = scores[at(i / c.k)].score[at(e)];
        those.emplace_back(c.gate.overflow == Overflow::random     ? uniform_of(c, c.gate.overflow_site, i / c.k, e)
                           : c.gate.overflow == Overflow::position ? 0
                           : c.t == DType::f32                     ? static_cast<float>(score)
                                                                   : score,
                           i);
        ++o.loads[at(e)];
        if (rules.all || i % c.k == 0) ++o.loads[at(c.experts + e)];
      }
      const auto wanted = static_cast<std::int64_t>(those.size());
      std::stable_sort(those.begin(), those.end(), [](auto& a, auto& b) { return a.first > b.first; });
      const auto free = c.gate.capacity == 0 ? wanted : std::max<std::int64_t>(0, c.gate.capacity - wanted_before);
      those.resize(at(std::min(wanted, free)));
      std::sort(those.begin(), those.end(), [](auto& a, auto& b) { return a.second < b.second; });
      for (const auto& [key, i] : those) {
        o.rows[at(i)] = row;
        o.sources[at(row++)] = static_cast<std::int32_t>(i);
      }
      wanted_before += wanted;
    }
    o.groups.push_back(first), o.groups.push_back(row - first);
    next += row - first;
  }
  for (std::int64_t s = 0; s < c.tokens; ++s) {
    double sum = 0;
    for (auto i = s * c.k; i < (s + 1) * c.k; ++i)
      if (o.rows[at(i)] >= 0 || rules.weights == plan::GateWeights::chosen)
        sum += scores[at(s)].score[at(o.chosen[at(i)])];
    for (auto i = s * c.k; i < (s + 1) * c.k; ++i)
      if (o.rows[at(i)] >= 0)
        o.weights[at(i)] = c.gate.scale * scores[at(s)].score[at(o.chosen[at(i)])] /
                           (rules.weights == plan::GateWeights::scores ? 1 : sum);
    o.losses[1] += scores[at(s)].logsumexp * scores[at(s)].logsumexp / static_cast<double>(c.tokens);
    for (double p : scores[at(s)].probability) o.losses[2] -= p * std::log(p) / static_cast<double>(c.tokens);
  }
  const auto tokens = static_cast<double>(c.tokens);
  for (std::int64_t e = 0; e < c.experts; ++e) {
    double mean = 0, counted = 0;
    for (const auto& s : scores) mean += s.probability[at(e)] / tokens;
    for (std::int64_t i = 0; i < c.tokens * c.k; ++i)
      counted += o.chosen[at(i)] == e && (rules.all || i % c.k == 0) ? 1 / tokens : 0;
    o.losses[0] += static_cast<double>(c.experts) * mean * counted / static_cast<double>(rules.all ? c.k : 1);
  }
  return o;
}

void check_against_oracle(const GateCase& c) {
  const auto want = oracle_of(c);
  ASSERT_EQ(c.chosen, want.chosen);
  ASSERT_EQ(c.loads, want.loads);
  ASSERT_EQ(c.groups, want.groups);
  ASSERT_EQ(c.rows, want.rows);
  ASSERT_EQ(c.sources, want.sources);
  for (std::int64_t s = 0; s < c.tokens; ++s)
    for (std::int64_t j = 0; j < c.k; ++j) {
      const double w = want.weights[static_cast<std::size_t>(s * c.k + j)];
      ASSERT_TRUE(near(c.t, c.weights(s, j), w, w)) << "token " << s << " choice " << j;
      if (w == 0 || (w == c.gate.scale && c.k > 1 && Rules(c).weights == plan::GateWeights::kept)) {
        ASSERT_EQ(c.weights(s, j), w) << "a single survivor, and none";
      }
    }
  for (std::size_t i = 0; i < 3; ++i) ASSERT_NEAR(c.losses[i], want.losses[i], 1e-12) << "loss " << i;
}

void check_properties(const GateCase& c) {
  std::int64_t kept = 0, dropped = 0, in_groups = 0;
  std::set<std::int32_t> used;
  for (std::size_t i = 0; i < c.rows.size(); ++i) {
    if (c.rows[i] < 0) {
      ++dropped;
      continue;
    }
    ++kept;
    ASSERT_TRUE(used.insert(c.rows[i]).second) << "row " << c.rows[i] << " twice";
    const auto e = c.chosen[i];
    ASSERT_TRUE(c.rows[i] >= c.group(e, 0) && c.rows[i] < c.group(e, 0) + c.group(e, 1)) << "choice " << i;
    ASSERT_EQ(c.sources[static_cast<std::size_t>(c.rows[i])], static_cast<std::int32_t>(i));
  }
  for (std::int64_t e = 0; e < c.experts; ++e) in_groups += c.group(e, 1);
  EXPECT_EQ(kept + dropped, c.k * c.tokens);
  EXPECT_EQ(in_groups, kept);
  EXPECT_EQ(std::count(c.sources.begin(), c.sources.end(), -1), std::ssize(c.sources) - kept);
  EXPECT_LE(kept, c.gate.capacity > 0 ? c.experts * c.gate.capacity : kept);
  EXPECT_TRUE(c.gate.capacity > 0 || dropped == 0);
  EXPECT_TRUE(c.gate.slot_rows > 0 || kept == 0 || *used.rbegin() == kept - 1);
}

TEST(Gate, AgreesWithAnOracleThatSorts) {
  std::map<std::string, int> kinds;
  on_every_path([&] {
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
      SCOPED_TRACE("case " + std::to_string(seed));
      auto c = random_gate(seed, gate_types[seed % 2]);
      for (int threads = 1; threads <= 3; ++threads) {
        auto again = random_gate(seed, gate_types[seed % 2]);
        Host host(threads);
        (threads == 1 ? c : again).forward(host);
        if (threads == 1) {
          check_against_oracle(c);
          check_properties(c);
          if (::testing::Test::HasFailure()) return;
          continue;
        }
        ASSERT_EQ(again.chosen, c.chosen);
        ASSERT_EQ(again.rows, c.rows);
        ASSERT_EQ(again.sources, c.sources);
        ASSERT_EQ(again.weights.bytes, c.weights.bytes) << threads << " threads";
        ASSERT_EQ(again.losses, c.losses) << threads << " threads";
      }
      const bool drops = std::count(c.rows.begin(), c.rows.end(), -1) > 0;
      ++kinds["k " + std::to_string(std::min<std::int64_t>(c.k, 3)) + " overflow " +
              std::to_string(static_cast<int>(c.gate.overflow)) + (drops ? " drops" : "")];
    }
  });
  EXPECT_EQ(kinds.size(), 18u) << "one, two and more choices under three rules, with drops and without";
}

// Several blocks of tokens, and experts that thousands of tokens choose.
TEST(Gate, ManyTokensAgreeWithTheOracle) {
  for (auto rule : {Overflow::random, Overflow::position, Overflow::probability})
    for (std::int64_t k : {1, 2, 4}) {
      SCOPED_TRACE(static_cast<int>(rule));
      kernels::Gate g;
      g.capacity = 700 * k, g.overflow = rule, g.slot_rows = rule == Overflow::random ? 700 * k : 0;
      g.noise = GateNoise::gumbel, g.overflow_site = 3, g.noise_site = 4;
      GateCase c(DType::f32, 4000, 5, k, g);
      c.samples_in_sequences_of(500);
      c.fill(7);
      for (std::int64_t s = 0; s < c.tokens; ++s) c.logits.set(s, 3, c.logits(s, 3) + 1);
      Host host(1);
      c.forward(host);
      check_against_oracle(c);
      check_properties(c);
      for (int threads : {2, 3}) {
        auto again = c;
        Host more(threads);
        again.forward(more);
        ASSERT_EQ(again.losses, c.losses) << threads << " threads";
        ASSERT_EQ(again.rows, c.rows) << threads << " threads";
      }
    }
}

// Permutes tokens together with their random numbers. The same tokens go to the same experts with the same weights, and
// only the last bits of the losses change.
TEST(Gate, TheOrderOfTokensDoesNotDecideWhoIsKeptByNumberOrProbability) {
  for (auto rule : {Overflow::random, Overflow::probability})
    for (std::int64_t k : {1, 2, 3}) {
      kernels::Gate g;
      g.capacity = 5 * k, g.overflow = rule, g.noise = GateNoise::gumbel, g.seed = 3;
      GateCase c(DType::f64, 60, 4, k, g), moved(DType::f64, 60, 4, k, g);
      c.samples_in_sequences_of(1), moved.samples_in_sequences_of(1);
      c.fill(5);
      const auto from = [](std::int64_t s) { return (s * 17 + 3) % 60; };
      for (std::int64_t s = 0; s < 60; ++s) {
        moved.samples[static_cast<std::size_t>(s)] = c.samples[static_cast<std::size_t>(from(s))];
        for (std::int64_t e = 0; e < 4; ++e) moved.logits.set(s, e, c.logits(from(s), e));
      }
      Host host(2);
      c.forward(host), moved.forward(host);
      EXPECT_GT(std::count(c.rows.begin(), c.rows.end(), -1), 0);
      for (std::int64_t s = 0; s < 60; ++s)
        for (std::int64_t j = 0; j < k; ++j) {
          EXPECT_EQ(moved.expert(s, j), c.expert(from(s), j));
          EXPECT_EQ(moved.row(s, j) < 0, c.row(from(s), j) < 0);
          EXPECT_EQ(moved.weights(s, j), c.weights(from(s), j));
        }
      for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(moved.losses[i], c.losses[i], 1e-13);
    }
}

// Whatever the logits are, a choice is an expert, numbers come before NaN, and each row belongs to one choice. Losses
// that cannot be computed are NaN.
TEST(Gate, LogitsThatAreNotNumbersChooseExpertsAll) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (auto score : {GateScore::softmax, GateScore::sigmoid})
    for (auto rule : {Overflow::random, Overflow::probability}) {
      kernels::Gate g;
      g.capacity = 3, g.score = score, g.overflow = rule;
      GateCase c(DType::f32, 20, 4, 3, g);
      c.fill(2);
      for (std::int64_t s = 0; s < 20; s += 2)
        for (std::int64_t e = 0; e < 4 - s % 4; ++e) c.logits.set(s, e, nan);
      Host host(2);
      c.forward(host);
      check_properties(c);
      for (std::int64_t s = 0; s < 20; ++s) {
        std::set<std::int32_t> distinct;
        for (std::int64_t j = 0; j < 3; ++j) {
          ASSERT_TRUE(c.expert(s, j) >= 0 && c.expert(s, j) < 4);
          distinct.insert(c.expert(s, j));
        }
        EXPECT_EQ(distinct.size(), 3u);
        EXPECT_TRUE(s % 4 != 2 || (c.expert(s, 0) >= 2 && c.expert(s, 1) >= 2)) << "numbers come first";
      }
      EXPECT_TRUE(std::isnan(c.losses[0]) && std::isnan(c.losses[1]));
    }
}

// Logits so far apart that the survivors' probabilities underflow in f32 and in f64.
TEST(Gate, SurvivorsOfNoProbabilityHaveWeights) {
  for (auto score : {GateScore::softmax, GateScore::sigmoid}) {
    kernels::Gate g;
    g.capacity = 1, g.overflow = Overflow::position, g.score = score;
    GateCase c(DType::f32, 2, 3, 2, g);
    for (std::int64_t s = 0; s < 2; ++s)
      for (std::int64_t e = 0; e < 3; ++e)
        c.logits.set(s, e, e == 0 ? 600 : -200 - 20.0 * static_cast<double>((e + s) % 2));
    Host host(1);
    c.forward(host);
    EXPECT_EQ(c.row(0, 0), 0);
    EXPECT_LT(c.row(1, 0), 0);
    EXPECT_EQ(c.weights(1, 1), 1);
  }
}

TEST(Gate, ScratchIsWhatTheFormulaSays) {
  for (auto t : gate_types)
    for (std::int64_t tokens : {1, 64, 65, 700}) {
      kernels::Gate g;
      g.capacity = 20, g.overflow = Overflow::probability;
      GateCase c(t, tokens, 7, 3, g);
      c.fill(1);
      const auto bytes = plan::gate_scratch_bytes(tokens, 7, 3, base::size_of(t));
      Host host(1, bytes);
      c.forward(host);
      EXPECT_EQ(host.bench.arena.peak_bytes(), bytes);
    }
}

TEST(Gate, RowsThatDoNotFitAreRefused) {
  kernels::Gate g;
  g.overflow = Overflow::position;
  GateCase c(DType::f32, 10, 2, 1, g);
  c.fill(1);
  c.sources.resize(9);
  Host host(1);
  EXPECT_THROW(c.forward(host), std::logic_error);
  c.sources.resize(10), c.gate.capacity = 5, c.gate.slot_rows = 4;
  EXPECT_THROW(c.forward(host), std::logic_error);
}

}  // namespace gate_test
}  // namespace trainyard::test
