// Metrics of gates: shares and means of a record, the same values on every layout, and warnings about a collapsed gate.
#include "libtrain/engine/gate_metrics.h"

#include "kernels/gate_record/gate_record_args.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

plan::ModelConfig model_of(std::int64_t layers, std::vector<std::int64_t> counts, std::int64_t top_k = 1) {
  plan::ModelConfig m;
  m.layers = layers;
  m.experts.count = std::move(counts);
  m.experts.top_k = top_k;
  return m;
}

// Layers 1 and 3 have experts, 4 and 2 of them. The second row has two unused places.
TEST(GateMetrics, SharesAndMeansOfARecord) {
  auto m = model_of(4, {4, 2});
  m.experts.every = 2;
  m.experts.balance_loss = 0.5, m.experts.z_loss = 0.25;
  const auto shape = engine::gate_record_shape(m);
  ASSERT_EQ(shape.rows, 2);
  ASSERT_EQ(shape.width, kernels::gate_record_sums + 4);
  constexpr std::int64_t flat_group = 1 << 20;
  const std::vector<std::int64_t> records{30, 12 * flat_group, 20 * flat_group, 10 * flat_group, 8, 4,  20, 10, 6,
                                          40, 8 * flat_group,  4 * flat_group,  2 * flat_group,  8, 10, 30, 0,  0};
  const auto all = engine::gate_metrics(m, records);
  ASSERT_EQ(all.layers.size(), 2u);
  const auto &a = all.layers[0], &b = all.layers[1];
  EXPECT_EQ(a.layer, 1);
  EXPECT_EQ(a.experts, 4);
  EXPECT_EQ(a.kept, 30);
  EXPECT_EQ(a.dropped, 10);
  EXPECT_EQ(a.dropped_share, 0.25);
  EXPECT_EQ(a.fullest, 2);
  EXPECT_EQ(a.fullest_expert, 1);
  EXPECT_EQ(a.emptiest, 0.4);
  EXPECT_EQ(a.balance_loss, 1.5);
  EXPECT_EQ(a.z_loss, 2.5);
  EXPECT_EQ(a.entropy, 1.25);
  EXPECT_EQ(b.layer, 3);
  EXPECT_EQ(b.experts, 2);
  EXPECT_EQ(b.dropped, 0);
  EXPECT_EQ(b.fullest, 1.5);
  EXPECT_EQ(b.emptiest, 0.5);
  EXPECT_EQ(all.dropped_share, 0.125);
  EXPECT_EQ(all.fullest, 2);
  EXPECT_EQ(all.weighted_balance_loss, 0.5 * (1.5 + 1));
  EXPECT_EQ(all.weighted_z_loss, 0.25 * (2.5 + 0.5));
}

TEST(GateMetrics, NobodyLearnsOfAModelWithoutExperts) {
  EXPECT_EQ(engine::gate_record_shape(model_of(4, {})).count(), 0);
  SmallRun runs;
  auto c = runs.config("dense");
  c.steps = 1;
  runs.run(c, {1, 0, 1});
  const auto line = SmallRun::metrics(c).at(0);
  for (const char* key : {"experts", "balance_loss", "z_loss"}) EXPECT_FALSE(line.contains(key)) << line;
}

engine::GateMetrics spread(std::vector<double> fullest, std::int64_t experts) {
  engine::GateMetrics m;
  for (std::size_t i = 0; i < fullest.size(); ++i) {
    auto& g = m.layers.emplace_back();
    g.layer = static_cast<std::int64_t>(2 * i + 1), g.experts = experts, g.fullest = fullest[i], g.fullest_expert = 3;
  }
  return m;
}

// The steps, counted from 1, at which the watch warned.
std::vector<int> said(const plan::ModelConfig& model, const std::vector<double>& fullest, std::int64_t experts) {
  engine::GateWatch watch(model);
  std::vector<int> out;
  for (std::size_t s = 0; s < fullest.size(); ++s)
    for (const auto& sentence : watch.look(spread({fullest[s]}, experts))) {
      EXPECT_FALSE(sentence.empty());
      out.push_back(static_cast<int>(s) + 1);
    }
  return out;
}

std::vector<double> times(int n, double value) { return std::vector<double>(static_cast<std::size_t>(n), value); }

TEST(GateWatch, SaysOnceWhatLastedTenSteps) {
  using Steps = std::vector<int>;
  const auto one = model_of(2, {4});
  EXPECT_EQ(said(one, times(40, 2.1), 4), Steps{10});  // 53 % of all choices
  EXPECT_EQ(said(one, times(40, 2), 4), Steps{});      // half is not more than half
  EXPECT_EQ(said(one, times(9, 4), 4), Steps{});
  auto broken = times(25, 4);
  broken[8] = 1;
  EXPECT_EQ(said(one, broken, 4), Steps{19});
  // A layer that recovered for ten steps is reported as such, and may be reported again.
  auto comes_back = times(10, 4);
  for (const auto& [count, fullest] : {std::pair{9, 1.0}, {1, 4.0}, {10, 1.0}, {10, 4.0}})
    comes_back.insert(comes_back.end(), static_cast<std::size_t>(count), fullest);
  EXPECT_EQ(said(one, comes_back, 4), (Steps{10, 30, 40}));
  EXPECT_EQ(said(model_of(2, {3}), times(40, 3), 3), Steps{});  // with three experts a large share is no collapse
  const auto two = model_of(2, {8}, 2);
  EXPECT_EQ(said(two, times(40, 3.7), 8), Steps{10});  // 92 % of the tokens, 46 % of the choices
  EXPECT_EQ(said(two, times(40, 3.5), 8), Steps{});
  EXPECT_EQ(said(model_of(2, {2}, 2), times(40, 1), 2), Steps{});  // every token goes to every expert
}

TEST(GateWatch, NamesLayerShareAndRemedies) {
  auto m = model_of(4, {4});
  m.experts.every = 2, m.experts.balance_loss = 0.02;
  engine::GateWatch watch(m);
  std::vector<std::string> sentences;
  for (int s = 0; s < 20; ++s)
    for (const auto& sentence : watch.look(spread({s < 5 ? 1.0 : 4.0, 3.0}, 4))) sentences.push_back(sentence);
  ASSERT_EQ(sentences.size(), 2u);  // the warning about the second of the two layers comes first
  for (const char* words : {"layer 3 ", "expert 3 got 75 % of the tokens", "25 %", "experts-balance-loss (it is 0.02)",
                            "experts-z-loss", "experts-noise \"jitter\"", "--learning-rate"})
    EXPECT_NE(sentences[0].find(words), std::string::npos) << words << ": " << sentences[0];
  EXPECT_NE(sentences[1].find("layer 1 "), std::string::npos) << sentences[1];
  m.experts.noise = plan::GateNoise::gumbel;
  engine::GateWatch noisy(m);
  for (int s = 0; s < 10; ++s)
    for (const auto& sentence : noisy.look(spread({4.0}, 4)))
      EXPECT_EQ(sentence.find("experts-noise"), std::string::npos) << sentence;
}

// A warning claims only what is true of all ten steps, and speaks of a collapse only above nine tenths.
TEST(GateWatch, WordsFollowTheShare) {
  const auto said_of = [](const plan::ModelConfig& model, double fullest, std::int64_t experts, double first) {
    engine::GateWatch watch(model);
    std::string out;
    for (int s = 0; s < 10; ++s)
      for (const auto& sentence : watch.look(spread({s == 0 ? first : fullest}, experts))) out += sentence;
    return out;
  };
  const auto one = model_of(2, {4});
  const struct {
    double fullest, first;
    const char *state, *words, *now;
  } cases[] = {{2.24, 2.24, "is very uneven", "got more than half of the tokens;", "got 56 % of the tokens"},
               {4, 2.24, "is very uneven", "got more than half of the tokens;", "got 100 % of the tokens"},
               {3.2, 3.2, "is very uneven", "got more than three quarters of the tokens;", "got 80 % of the tokens"},
               {3.7, 3.7, "has collapsed", "got more than nine tenths of the tokens;", "got 92 % of the tokens"},
               {4, 4, "has collapsed", "got every token;", "got 100 % of the tokens"}};
  for (const auto& c : cases) {
    const auto text = said_of(one, c.fullest, 4, c.first);
    for (const char* part : {c.state, c.words, c.now}) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(said_of(one, 2.24, 4, 2.24).find("nearly everything"), std::string::npos);
  const auto two = said_of(model_of(2, {8}, 2), 3.7, 8, 3.7);  // 92 % of the tokens are 46 % of the choices
  EXPECT_NE(two.find("has collapsed: in each of the last 10 steps one expert got more than nine tenths"),
            std::string::npos)
      << two;
}

// Layer 0 is dense; layers 1 to 3 have 4, 2 and 4 experts. Each token goes to two experts.
std::string experts(SmallRun& runs) {
  return runs.model(
      "experts",
      "layers = 4\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 32\ncontext = 32\ndropout-attention = 0.1\n"
      "experts-count = \"4,2,4\"\nexperts-dense-layers = 1\nexperts-top-k = 2\nexperts-capacity-factor = "
      "\"1.0\"\nexperts-z-loss = 0.001\n");
}

std::string told(const engine::RunConfig& c) {
  std::string out;
  for (const auto& j : SmallRun::metrics(c))
    out += fmt::format("{} {} {} {}\n", j.at("step").dump(), j.at("experts").dump(), j.at("balance_loss").dump(),
                       j.at("z_loss").dump());
  return out;
}

engine::RunConfig small(SmallRun& runs, const std::string& output) {
  auto c = runs.config(output);
  c.model = experts(runs);
  c.steps = 4;
  c.global_batch = 16;
  c.micro_batch = 2;
  return c;
}

// Every rank counts once, every pipeline stage reports its own layers, and every step reports itself alone.
TEST(GateMetrics, TheSameValuesOnEveryCut) {
  SmallRun runs;
  const std::vector<ParallelLayout> layouts = {{1, 0, 1},
                                               {1, 3, 2, "f32", "full"},
                                               {2, 1, 1},
                                               {3, 2, 1, "f32", "selective"},
                                               {4, 3, 1},
                                               {7, 0, 1},
                                               {2, 0, 1, "f32", "none", 1, false, 2, "1f1b"},
                                               {2, 0, 1, "f32", "full", 1, false, 2, "gpipe"},
                                               {2, 0, 1, "f32", "none", 1, false, 2, "interleaved", 2},
                                               {4, 2, 1, "f32", "none", 1, false, 2, "1f1b"},
                                               {2, 0, 1, "f32", "none", 1, false, 2, "zero-bubble"}};
  std::string first_step;  // before any update
  for (const std::int64_t local_accumulation : {1, 2}) {
    std::string expected;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      auto c = small(runs, fmt::format("cut-{}-{}", local_accumulation, i));
      c.local_accumulation = local_accumulation;
      if (local_accumulation > 1 && layouts[i].ranks / layouts[i].pipeline > 3)
        continue;  // more ranks than local accumulation groups
      runs.run(c, layouts[i]);
      testing::expect_no_difference(runs.reports(), c.output);
      const auto values = told(c);
      if (i == 0) expected = values;
      if (first_step.empty()) first_step = values.substr(0, values.find('\n'));
      EXPECT_TRUE(values.starts_with(first_step)) << values;
      EXPECT_EQ(values, expected) << layouts[i].ranks << " ranks, ZeRO " << layouts[i].zero << ", "
                                  << layouts[i].pipeline << " stages, " << layouts[i].schedule
                                  << ", local accumulation " << local_accumulation;
    }
  }
}

TEST(GateMetrics, CountEveryTokenOnceAndBeginNearlyEven) {
  SmallRun runs;
  const auto c = small(runs, "counted");
  runs.run(c, {2, 1, 1});
  const auto lines = SmallRun::metrics(c);
  ASSERT_EQ(lines.size(), 4u);
  for (const auto& line : lines) {
    const auto& layers = line.at("experts").at("layers");
    ASSERT_EQ(layers.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto& g = layers[i];
      EXPECT_EQ(g.at("layer"), static_cast<std::int64_t>(i) + 1);
      EXPECT_EQ(g.at("experts"), i == 1 ? 2 : 4);
      EXPECT_EQ(g.at("kept").get<std::int64_t>() + g.at("dropped").get<std::int64_t>(), 16 * 32 * 2) << g;
      EXPECT_GE(g.at("fullest"), 1) << g;
      EXPECT_LE(g.at("emptiest"), 1) << g;
    }
    // With two experts each token chooses both, and there is room for all tokens.
    EXPECT_EQ(layers[1].at("fullest"), 1);
    EXPECT_EQ(layers[1].at("emptiest"), 1);
    EXPECT_EQ(layers[1].at("dropped"), 0);
  }
  // Initial gates prefer no expert: a token's probabilities are 1/E, log-sum-exp is log E, the balance loss is 1.
  for (const auto& g : lines[0].at("experts").at("layers")) {
    const double even = std::log(g.at("experts").get<double>());
    EXPECT_NEAR(g.at("entropy").get<double>(), even, 0.02) << g;
    EXPECT_NEAR(g.at("z_loss").get<double>(), even * even, 0.1) << g;
    EXPECT_NEAR(g.at("balance_loss").get<double>(), 1, 0.05) << g;
  }
  double balance = 0, z = 0;
  for (const auto& g : lines[0].at("experts").at("layers"))
    balance += 0.01 * g.at("balance_loss").get<double>(), z += 0.001 * g.at("z_loss").get<double>();
  EXPECT_NEAR(lines[0].at("balance_loss").get<double>(), balance, 1e-12);
  EXPECT_NEAR(lines[0].at("z_loss").get<double>(), z, 1e-12);
  // Losses change during training, so no step repeats another step's values.
  EXPECT_NE(lines[0].at("experts").dump(), lines[3].at("experts").dump());
}

TEST(GateMetrics, PlacesAreBoundedByTheCapacity) {
  SmallRun runs;
  auto c = small(runs, "tight");
  c.model = runs.model("tight",
                       "layers = 1\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 32\ncontext = 32\nexperts-count = 4\n"
                       "experts-capacity-factor = \"0.25\"\nexperts-min-capacity = 0\n");
  c.steps = 1;
  runs.run(c, {1, 0, 1});
  // 64 tokens a micro-batch give 4 places to each of 4 experts, and all of them are filled; 8 micro-batches.
  const auto line = SmallRun::metrics(c).at(0);
  EXPECT_EQ(line["experts"]["layers"][0]["kept"], 8 * 4 * 4) << line["experts"];
  EXPECT_EQ(line["experts"]["dropped_share"], 0.75);
}

// A validation between two steps does not count as training, and a resume goes on with the same values.
TEST(GateMetrics, ValidationsAndResumesChangeNothing) {
  SmallRun runs;
  const auto plain = small(runs, "plain");
  runs.run(plain, {1, 0, 1});
  auto c = small(runs, "parts");
  c.validate_every = 1;
  c.validation_sequences = 4;
  c.stop_after = 2;
  ASSERT_EQ(runs.run(c, {2, 2, 1}).code, base::ExitCode::requeue);
  c.stop_after = 0;
  runs.run(c, {1, 0, 1});
  EXPECT_EQ(told(c), told(plain));
}

}  // namespace
}  // namespace trainyard
