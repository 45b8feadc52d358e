// Encoder-decoder models: finite differences, memory as predicted, bits of recomputation, and what segments see.
#include "libtrain/model/kv_cache.h"
#include "tests/model/slope.h"
#include "tests/model/small_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

namespace trainyard::test {
namespace encoder_decoder_test {

using base::DType;

constexpr std::int64_t source_length = 17, target_length = 13;

std::unique_ptr<Batch> batch_of(const plan::ModelConfig& m, bool segments, std::int64_t source = source_length) {
  auto batch = std::make_unique<Batch>(formula_windows(m.vocabulary, 3, 2, target_length, segments), segments);
  batch->add_sources(formula_windows(m.vocabulary, 5, 2, source, segments), segments);
  return batch;
}

plan::MicroShape shape_of(DType dtype, std::int64_t source = source_length) {
  return {{.batch = 2, .sequence = target_length}, {.dtype = dtype, .threads = 2}, source};
}

// Moves weights away from their initial values.
void stir(PlainStore& store) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 0.2);
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p)
      for (std::int64_t i = 0; i < store.flat_groups[u].parameters[p].count(); ++i)
        store.master[u][static_cast<std::size_t>(store.layouts[u].offsets[p] + i)] += normal(random);
  store.publish();
}

// Along a direction through all parameters, each of which has a gradient.
void check_gradients(const plan::ModelConfig& m, plan::Recompute recompute) {
  SCOPED_TRACE(m.name);
  const auto batch = batch_of(m, true);
  PlainStore store(m, DType::f64, 3);
  stir(store);
  Runner runner(m, shape_of(DType::f64), recompute);
  expect_slope_of_the_loss(store, runner, *batch, m.name);
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p) {
      const auto& parameter = store.flat_groups[u].parameters[p];
      double largest = 0;
      for (std::int64_t i = 0; i < parameter.count(); ++i)
        largest = std::max(largest, std::abs(store.gradient_of(static_cast<int>(u), static_cast<int>(p), i)));
      EXPECT_GT(largest, 0) << parameter.name;
    }
}

TEST(EncoderDecoder, GradientsAreDifferencesOfTheLoss) {
  check_gradients(with_encoder(with_dropout(small_gpt2())), plan::Recompute::none);
  check_gradients(with_encoder(with_dropout(small_gpt2()), 2, 1), plan::Recompute::layers);
  check_gradients(with_encoder(with_dropout(small_llama())), plan::Recompute::selective);
  check_gradients(with_encoder(with_dropout(small_post())), plan::Recompute::none);
  check_gradients(with_encoder(with_dropout(small_sandwich())), plan::Recompute::none);
  check_gradients(with_encoder(with_dropout(small_inside_post())), plan::Recompute::layers);
  auto wide = with_encoder(small_llama());
  wide.head_size = 16, wide.biases = plan::Biases::qkv, wide.tied = true, wide.lanes = 2;
  check_gradients(wide, plan::Recompute::none);
  for (const auto recompute : plan::recomputations) check_gradients(with_inner_dropout(small_relative()), recompute);
  auto grouped = small_relative(2, 1);
  grouped.kv_heads = 2, grouped.experts.count = {2}, grouped.experts.balance_loss = 0;
  check_gradients(grouped, plan::Recompute::layers);
}

// The high-water marks of a step are what the plan says, for sources that are shorter and longer than targets.
TEST(EncoderDecoder, MemoryIsAsPredicted) {
  for (const auto dtype : {DType::f32, DType::bf16})
    for (const std::int64_t source : {5, 13, 70})
      for (const auto recompute : plan::recomputations)
        for (auto m : {with_encoder(with_dropout(small_gpt2())), with_encoder(small_post(), 2, 2),
                       with_encoder(small_llama(), 2, 1), with_encoder(with_dropout(small_sandwich())),
                       with_inner_dropout(small_relative())}) {
          SCOPED_TRACE(m.name + " " + std::to_string(source) + " " + base::name_of(dtype));
          m.context = 80;
          const auto batch = batch_of(m, source > 12, source);
          PlainStore store(m, dtype, 3);
          const auto shape = shape_of(dtype, source);
          Runner runner(m, shape, recompute);
          runner.train(store, *batch);
          EXPECT_EQ(runner.activations.peak_bytes(),
                    plan::activation_bytes(m, Runner::on_device(shape), plan::Pass::train, recompute));
          EXPECT_EQ(runner.workspace.peak_bytes(),
                    plan::workspace_bytes(m, Runner::on_device(shape), plan::Pass::train));
          const auto trained = runner.evaluate(store, *batch);
          EXPECT_GT(trained.loss_sum, 0);
          EXPECT_TRUE(runner.saved.empty());
        }
}

std::vector<std::vector<double>> gradients_of(const plan::ModelConfig& m, DType dtype, const Batch& batch,
                                              const plan::Recomputation& recompute, double* loss = nullptr) {
  PlainStore store(m, dtype, 3);
  Runner runner(m, shape_of(dtype), recompute);
  const auto result = runner.train(store, batch);
  if (loss != nullptr) *loss = result.loss_sum;
  std::vector<std::vector<double>> out;
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p) {
      auto& all = out.emplace_back();
      for (std::int64_t i = 0; i < store.flat_groups[u].parameters[p].count(); ++i)
        all.push_back(store.gradient_of(static_cast<int>(u), static_cast<int>(p), i));
    }
  return out;
}

TEST(EncoderDecoder, RecomputationHasTheSameBits) {
  for (const auto& m : {with_encoder(with_dropout(small_gpt2()), 2, 3), with_encoder(with_dropout(small_llama())),
                        with_inner_dropout(small_relative(2, 2)), with_inner_dropout(with_encoder(small_gpt2()))}) {
    const auto batch = batch_of(m, true);
    for (const auto dtype : {DType::f32, DType::bf16}) {
      const auto plain = gradients_of(m, dtype, *batch, plan::Recompute::none);
      EXPECT_EQ(plain, gradients_of(m, dtype, *batch, plan::Recompute::selective));
      EXPECT_EQ(plain, gradients_of(m, dtype, *batch, plan::Recompute::layers));
    }
  }
}

// What one segment's source says reaches the losses of its own targets alone.
TEST(EncoderDecoder, SegmentsSeeTheirOwnSource) {
  const auto m = with_encoder(small_gpt2());
  PlainStore store(m, DType::f32, 3);
  stir(store);
  const auto logits_at = [&](const Batch& batch, std::int64_t at) {
    Runner runner(m, shape_of(DType::f32));
    std::vector<float> out(static_cast<std::size_t>(2 * m.stored_vocabulary()));
    runner.logits(store, batch, at, base::View::of(out.data(), {2, m.stored_vocabulary()}));
    return std::vector<float>(out.begin(), out.begin() + m.stored_vocabulary());
  };
  auto sources = formula_windows(m.vocabulary, 5, 2, source_length, true);
  const auto batch_with = [&] {
    auto batch = std::make_unique<Batch>(formula_windows(m.vocabulary, 3, 2, target_length, true), true);
    batch->add_sources(sources, true);
    return batch;
  };
  // Of the first sequence, documents end at tokens 4 and 11.
  const auto before = batch_with();
  sources[0][7] = sources[0][7] % 100 + 1;  // in the second document
  const auto after = batch_with();
  EXPECT_EQ(logits_at(*before, 3), logits_at(*after, 3));
  EXPECT_NE(logits_at(*before, 6), logits_at(*after, 6));
  EXPECT_EQ(logits_at(*before, 12), logits_at(*after, 12));
}

// Logits of a target's tokens in one pass, and token after token with keys and values in caches.
TEST(EncoderDecoder, CachedKeysGiveTheSameLogits) {
  if (on_gpu()) return;  // caches are read on the host
  for (const auto& m : {with_encoder(small_llama()), small_relative()}) {
    SCOPED_TRACE(m.name);
    const auto source = formula_windows(m.vocabulary, 5, 1, source_length, false);
    const auto target = formula_windows(m.vocabulary, 3, 1, target_length, false)[0];
    PlainStore store(m, DType::f32, 3);
    stir(store);
    Runner runner(m, {{.batch = 1, .sequence = target_length}, {.threads = 2}, source_length});
    const auto bytes = model::KvCache::bytes(m, DType::f32) + model::SourceCache::bytes(m, DType::f32, source_length);
    tensor::Arena memory(tensor::Category::workspace, bytes, test_device());
    model::KvCache cache(m, DType::f32, memory);
    model::SourceCache of_source(m, DType::f32, source_length, memory);
    cache.source = &of_source;
    auto* past = &cache;
    const auto logits_of = [&](std::int64_t first, std::int64_t count, bool cached) {
      Batch batch({{target.begin() + first, target.begin() + first + count + 1}}, false);
      for (auto& position : batch.positions) position += static_cast<std::int32_t>(first);
      batch.add_sources(source, false);
      model::Step step{*runner.exec, &store, batch.micro, DType::f32, 0, plan::Pass::evaluate, 0, 0};
      step.lists = &runner.lists;
      if (cached) step.past = {&past, 1};
      std::vector<float> out(static_cast<std::size_t>(m.stored_vocabulary()));
      runner.decoder.logits(step, runner.saved, count - 1, base::View::of(out.data(), {1, m.stored_vocabulary()}));
      if (cached) cache.length += count;
      return out;
    };
    constexpr std::int64_t beginning = 4;
    for (std::int64_t end = beginning; end <= target_length; ++end) {
      const auto whole = logits_of(0, end, false);
      const auto one = end == beginning ? logits_of(0, end, true) : logits_of(end - 1, 1, true);
      for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(one[i], whole[i], 2e-5) << end << " " << i;
    }
  }
}

// An encoder sees the whole source: a token's change reaches all targets, also those before its place.
TEST(EncoderDecoder, AnEncoderSeesLaterTokens) {
  const auto m = with_encoder(small_llama());
  auto sources = formula_windows(m.vocabulary, 5, 2, source_length, false);
  PlainStore store(m, DType::f32, 3);
  stir(store);
  const auto loss = [&] {
    Batch batch(formula_windows(m.vocabulary, 3, 2, target_length, false), false);
    batch.add_sources(sources, false);
    std::vector<float> out(static_cast<std::size_t>(2 * m.stored_vocabulary()));
    Runner runner(m, shape_of(DType::f32));
    runner.logits(store, batch, 0, base::View::of(out.data(), {2, m.stored_vocabulary()}));
    return out;
  };
  const auto before = loss();
  sources[0][source_length - 1] = sources[0][source_length - 1] % 100 + 1;
  sources[1][source_length - 1] = sources[1][source_length - 1] % 100 + 1;
  const auto after = loss();
  EXPECT_NE(std::vector<float>(before.begin(), before.begin() + m.stored_vocabulary()),
            std::vector<float>(after.begin(), after.begin() + m.stored_vocabulary()));
}

}  // namespace encoder_decoder_test
}  // namespace trainyard::test
