// Models with block-sparse attention, windows of tokens and capped scores: what a token can reach, gradients by
// differences, every kind of recomputation.
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/layer_model.h"
#include "tests/model/slope.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

namespace trainyard::test {
namespace sparse_attention_test {

using base::DType;

constexpr std::int64_t T = 75;  // no multiple of a block

plan::ModelConfig of_layouts(plan::ModelConfig m, std::vector<std::string> layouts, std::int64_t block = 16) {
  m.context = T;
  m.attention.layout = std::move(layouts), m.attention.block = block;
  return m;
}

std::vector<plan::ModelConfig> models() {
  std::vector<plan::ModelConfig> all;
  for (const char* layout : {"fixed", "variable", "bigbird", "longformer", "sliding"}) {
    all.push_back(of_layouts(small_gpt2(), {layout}));
    all.push_back(of_layouts(small_llama(), {"dense", layout}, 32));
    all.back().attention.per_head = std::string(layout) == "bigbird";
  }
  all.push_back(of_layouts(small_gpt2(), {"sliding"}, 64));
  all.push_back(of_layouts(small_gpt2(), {"sliding", "longformer"}));  // each layer has lists of its own
  // Windows that begin and end within a part of a tile, alone and with blocks; caps that most scores come near to.
  all.push_back(of_layouts(small_llama(), {"dense"}, 64));
  all.back().attention.window_tokens = {21, 0}, all.back().attention.softcap = 0.5;
  all.push_back(of_layouts(small_gpt2(), {"sliding", "longformer"}));
  all.back().attention.window_tokens = {0, 9}, all.back().attention.softcap = 1;
  for (auto& m : all) {
    m.name = fmt::format("{} {} {}", m.name, fmt::join(m.attention.layout, ","), m.attention.block);
    if (m.attention.layout.back() == "sliding" || m.attention.layout.front() == "sliding") m.attention.window = 2;
  }
  return all;
}

// Which tokens may reach token i through all layers: the boolean product of the visibilities of all layers.
std::vector<std::vector<bool>> reach(const plan::ModelConfig& m) {
  const auto n = static_cast<std::size_t>(T);
  std::vector<std::vector<bool>> from(n, std::vector<bool>(n, false));
  for (std::size_t i = 0; i < n; ++i) from[i][i] = true;
  for (std::int64_t l = 0; l < m.layers; ++l) {
    const auto seen = plan::layer_model(m, l);
    auto next = from;  // the residual connection
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        bool sees = !plan::is_sparse(seen);
        if (!sees) {
          const auto layout = plan::block_layout(seen, l, T);
          for (std::int64_t h = 0; h < layout.heads; ++h)
            for (const auto c : layout.row(h, i / layout.block)) sees = sees || c == j / layout.block;
        }
        const auto window = seen.attention.window_tokens[0];
        if (!sees || (window > 0 && i - j >= window)) continue;
        for (std::size_t k = 0; k < n; ++k)
          next[static_cast<std::size_t>(i)][k] =
              next[static_cast<std::size_t>(i)][k] || from[static_cast<std::size_t>(j)][k];
      }
    from = next;
  }
  return from;
}

// A changed token changes what it reaches and not a bit of anything else. On a GPU, which may be an emulated one, only
// some of the models and places are tested.
TEST(SparseAttention, ATokenReachesWhatTheBlocksLetItReach) {
  const auto all_models = models();
  const std::size_t every_model = on_gpu() ? 4 : 1, every_place = on_gpu() ? 11 : 1;
  for (std::size_t n = 0; n < all_models.size(); n += every_model) {
    const auto& m = all_models[n];
    PlainStore store(m, DType::f32, 1);
    for (auto& flat_group : store.master)
      for (auto& x : flat_group) x *= 6;
    store.publish();
    const auto w = formula_windows(m.vocabulary, 0, 1, T, false);
    const auto all = reach(m);
    const auto logits = [&](const std::vector<std::vector<std::int32_t>>& windows) {
      const Batch batch(windows, false);
      Runner runner(m, {1, T, DType::f32, 2});
      std::vector<std::vector<float>> out;
      for (std::int64_t t = 0; t < T; ++t) {
        out.emplace_back(static_cast<std::size_t>(m.stored_vocabulary()));
        if (static_cast<std::size_t>(t) % every_place != 0) continue;
        runner.logits(store, batch, t, base::View::of(out.back().data(), {1, m.stored_vocabulary()}));
      }
      return out;
    };
    const auto before = logits(w);
    for (const std::size_t changed : {std::size_t{0}, std::size_t{17}, std::size_t{40}, std::size_t{66}}) {
      auto edited = w;
      edited[0][changed] = (edited[0][changed] + 5) % static_cast<std::int32_t>(m.vocabulary);
      const auto after = logits(edited);
      for (std::size_t t = 0; t < static_cast<std::size_t>(T); t += every_place) {
        const bool same = std::memcmp(before[t].data(), after[t].data(), before[t].size() * 4) == 0;
        EXPECT_EQ(same, !all[t][changed]) << m.name << ": token " << changed << " at " << t;
      }
    }
  }
}

// Compares the slope of the loss along a direction through all parameters.
TEST(SparseAttention, GradientsEqualFiniteDifferences) {
  for (auto m : models()) {
    m = with_dropout(m);
    PlainStore store(m, DType::f64, 1);
    for (auto& flat_group : store.master)
      for (auto& x : flat_group) x *= 5;
    store.publish();
    const Batch batch(formula_windows(m.vocabulary, 3, 2, T, true), true);
    Runner runner(m, {2, T, DType::f64, 2});
    expect_slope_of_the_loss(store, runner, batch, m.name);
  }
}

TEST(SparseAttention, SameBitsForThreadsAndRecomputation) {
  for (auto m : models()) {
    m = with_dropout(m);
    const Batch batch(formula_windows(m.vocabulary, 3, 2, T, true), true);
    for (const auto dtype : {DType::f32, DType::bf16}) {
      std::vector<char> want;
      for (const auto recompute : plan::recomputations)
        for (const int threads : {1, 3}) {
          PlainStore store(m, dtype, 1);
          Runner runner(m, {2, T, dtype, threads}, recompute);
          runner.train(store, batch);
          const auto bits = store.gradient_bits();
          if (want.empty()) want = bits;
          EXPECT_TRUE(bits == want) << m.name << " " << plan::name_of(recompute) << " " << threads;
        }
    }
  }
}

}  // namespace sparse_attention_test
}  // namespace trainyard::test
