// Models whose queries see later keys: which places the loss counts, what a document sees, gradients by differences.
#include "tests/model/slope.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

namespace trainyard::test {
namespace both_ways_test {

using base::DType;

constexpr std::int64_t T = 41;

std::vector<plan::ModelConfig> models() {
  std::vector<plan::ModelConfig> all;
  for (const char* layout : {"dense", "fixed", "variable", "bigbird", "longformer", "sliding"})
    for (auto m : {small_gpt2(), small_llama()}) {
      m.context = T;
      m.attention.causal = false;
      m.attention.layout = {layout};
      if (std::string(layout) != "dense") m.attention.block = 16;
      m.attention.horizontal = std::string(layout) == "fixed" || std::string(layout) == "variable";
      m.name = fmt::format("{} {}", m.name, layout);
      all.push_back(m);
    }
  return all;
}

void enlarge(PlainStore& store, double by) {
  for (auto& flat_group : store.master)
    for (auto& x : flat_group) x *= by;
  store.publish();
}

std::vector<std::vector<float>> logits(const plan::ModelConfig& m, PlainStore& store, const Batch& batch) {
  Runner runner(m, {1, T, DType::f32, 2});
  std::vector<std::vector<float>> out;
  for (std::int64_t t = 0; t < T; ++t) {
    out.emplace_back(static_cast<std::size_t>(m.stored_vocabulary()));
    runner.logits(store, batch, t, base::View::of(out.back().data(), {1, m.stored_vocabulary()}));
  }
  return out;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The loss is the sum of -ln p over the chosen places, computed here in double from the logits. Targets at other places
// change no bit.
TEST(BothWays, TheLossIsOfChosenPlacesAlone) {
  for (const auto& m : models()) {
    PlainStore store(m, DType::f32, 1);
    enlarge(store, 4);
    Batch batch(formula_windows(m.vocabulary, 0, 1, T, false), false);
    for (std::size_t t = 0; t < batch.weights.size(); ++t) batch.weights[t] = t % 7 == 2 ? 1 : 0;
    Runner runner(m, {1, T, DType::f32, 2});
    const auto want = runner.train(store, batch);
    const auto gradients = store.gradient_bits();
    EXPECT_EQ(want.targets, 6);
    const auto all = logits(m, store, batch);
    double sum = 0;
    for (std::size_t t = 2; t < all.size(); t += 7) {
      double total = 0;
      for (std::int64_t v = 0; v < m.vocabulary; ++v)
        total += std::exp(static_cast<double>(all[t][static_cast<std::size_t>(v)]));
      sum += std::log(total) - static_cast<double>(all[t][static_cast<std::size_t>(batch.targets[t])]);
    }
    EXPECT_NEAR(want.loss_sum, sum, 1e-4 * sum) << m.name;
    for (std::size_t t = 0; t < batch.targets.size(); ++t) {
      auto& target = batch.targets[t];
      const auto before = target;
      target = (target + 1) % static_cast<std::int32_t>(m.vocabulary);
      const auto found = runner.train(store, batch);
      EXPECT_EQ(found.loss_sum == want.loss_sum, t % 7 != 2) << m.name << " target " << t;
      EXPECT_EQ(store.gradient_bits() == gradients, t % 7 != 2) << m.name << " target " << t;
      target = before;
    }
  }
}

// A token affects the tokens of its own document, before and behind it, and no token of another document.
TEST(BothWays, ADocumentSeesItselfAlone) {
  for (const auto& m : models()) {
    const bool dense = m.attention.layout[0] == "dense";
    PlainStore store(m, DType::f32, 1);
    enlarge(store, 6);
    auto windows = formula_windows(m.vocabulary, 0, 1, T, true);  // documents of 0..4, 5..11, 12..
    const auto read = [&](bool ends) {
      Batch batch(windows, true);
      if (ends) batch.end_documents();
      return logits(m, store, batch);
    };
    const auto before = read(true), open = read(false);
    for (const std::size_t changed : {std::size_t{1}, std::size_t{8}, std::size_t{30}}) {
      auto& token = windows[0][changed];
      const auto was = token;
      token = token % 130 + 1;
      const auto after = read(true), leaks = read(false);
      const auto document = [](std::size_t t) { return t < 5 ? 0 : t < 12 ? 1 : 2; };
      for (std::size_t t = 0; t < static_cast<std::size_t>(T); ++t) {
        const auto text = fmt::format("{}: {} at {}", m.name, changed, t);
        if (document(t) != document(changed)) {
          EXPECT_TRUE(same(before[t], after[t])) << text;
        } else if (dense) {
          EXPECT_FALSE(same(before[t], after[t])) << text;
        }
        if (dense && document(t) < document(changed)) {
          EXPECT_FALSE(same(open[t], leaks[t])) << text << " without ends";
        }
      }
      token = was;
    }
  }
}

TEST(BothWays, GradientsEqualFiniteDifferences) {
  for (auto m : models()) {
    m = with_dropout(m);
    PlainStore store(m, DType::f64, 1);
    enlarge(store, 5);
    Batch batch(formula_windows(m.vocabulary, 3, 2, T, true), true);
    batch.end_documents();
    for (std::size_t t = 0; t < batch.weights.size(); ++t) batch.weights[t] = t % 5 == 1 ? 1 : 0;
    Runner runner(m, {2, T, DType::f64, 2});
    expect_slope_of_the_loss(store, runner, batch, m.name);
  }
}

}  // namespace both_ways_test
}  // namespace trainyard::test
