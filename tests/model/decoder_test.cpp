// The decoder over whole micro-batches: same bits for any number of threads, isolated documents, predicted memory,
// lease order, the declared inventory.
#include "libtrain/base/index.h"
#include "libtrain/model/assemble.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/model/small_model.h"
#include "tests/night.h"
#include "tests/tools/outside/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace trainyard::test {
namespace decoder_test {

using base::DType;

// The logits of every position of a batch: T vectors of [b, V].
std::vector<std::vector<float>> all_logits(const plan::ModelConfig& m, PlainStore& store, const Batch& batch) {
  const auto b = batch.micro.batch(), t = batch.micro.sequence();
  Runner runner(m, {b, t, DType::f32, 2});
  std::vector<std::vector<float>> all;
  for (std::int64_t at = 0; at < t; ++at) {
    std::vector<float> row(static_cast<std::size_t>(b * m.stored_vocabulary()));
    runner.logits(store, batch, at, base::View::of(row.data(), {b, m.stored_vocabulary()}));
    all.push_back(row);
  }
  return all;
}

TEST(Decoder, LeasesAndCommitsInTheStatedOrder) {
  auto untied = small_gpt2(), tied = small_llama();
  untied.tied = false, tied.tied = true;
  auto behind = untied;
  behind.norm_position = plan::NormPosition::post;
  auto adapted_experts = with_adapters(small_gpt2(), {"q", "o"});
  adapted_experts.experts.count = {4}, adapted_experts.experts.every = 2;
  for (const auto& m : {adapted_experts, small_gpt2(), small_llama(), untied, tied, small_post(), small_bert(), behind,
                        small_sandwich(), small_inside_post(), small_parallel(), with_adapters(small_gpt2()),
                        with_adapters(small_bert(), {"v"}), with_adapters(untied)})
    for (const auto recompute : plan::recomputations) {
      PlainStore store(m, DType::f32, 1);
      Runner runner(m, {2, 9, DType::f32, 1}, recompute);
      const Batch batch(formula_windows(m.vocabulary, 0, 2, 9, false), false);
      const auto accesses = [&] {
        std::vector<plan::Access> seen;
        for (const auto& call : store.calls) {
          if (call.kind == PlainStore::Call::acquire) seen.push_back({plan::Access::Kind::lease, call.occurrence});
          if (call.kind == PlainStore::Call::commit) seen.push_back({plan::Access::Kind::commit, call.occurrence});
        }
        store.calls.clear();
        return seen;
      };
      runner.train(store, batch);
      EXPECT_EQ(accesses(), plan::training_accesses(m)) << m.name;
      runner.evaluate(store, batch);
      EXPECT_EQ(accesses(), plan::evaluation_accesses(m)) << m.name;
      EXPECT_EQ(store.held, 0);
      EXPECT_EQ(store.opened, 0);
    }
}

// A model large enough for several tiles, chunks of the head and threads.
plan::ModelConfig wider(plan::ModelConfig m) {
  m.hidden = 128, m.ffn = 352, m.vocabulary = 700, m.context = 384;
  return m;
}

// By day each other case has one of the two teams and one of the two recomputations.
TEST(Decoder, SameBitsForAnyTeam) {
  int n = 0;
  for (const auto& base : {small_gpt2(), small_llama(), small_post(), small_bert()})
    for (const auto dtype : {DType::f32, DType::bf16}) {
      const auto m = with_dropout(wider(base));
      const Batch batch(formula_windows(m.vocabulary, 0, 2, 300, true), true);
      std::vector<char> want;
      double loss = 0;
      const auto left_out = [day = !testing::at_night(), n](int turn) { return day && (n / 2 + n + turn) % 2 == 0; };
      ++n;
      for (const int threads : {1, 2, 4}) {
        if (threads > 1 && left_out(threads / 2)) continue;
        PlainStore store(m, dtype, 1);
        Runner runner(m, {2, 300, dtype, threads});
        const auto r = runner.train(store, batch);
        if (threads == 1) want = store.gradient_bits(), loss = r.loss_sum;
        EXPECT_EQ(r.loss_sum, loss) << m.name << " threads " << threads;
        EXPECT_TRUE(store.gradient_bits() == want) << m.name << " threads " << threads;
      }
      for (const auto recompute : {plan::Recompute::selective, plan::Recompute::layers}) {
        if (left_out(recompute == plan::Recompute::layers ? 1 : 0)) continue;
        PlainStore store(m, dtype, 1);
        Runner runner(m, {2, 300, dtype, 2}, recompute);
        EXPECT_EQ(runner.train(store, batch).loss_sum, loss) << plan::name_of(recompute) << " " << m.name;
        EXPECT_TRUE(store.gradient_bits() == want) << plan::name_of(recompute) << " " << m.name;
      }
    }
}

TEST(Decoder, EvaluateGivesTheLossOfTraining) {
  for (const auto& m : {wider(small_gpt2()), wider(small_llama()), wider(small_post()), wider(small_bert()),
                        wider(small_sandwich()), wider(small_inside_post()), wider(small_parallel())}) {
    PlainStore store(m, DType::f32, 1);
    Runner runner(m, {2, 300, DType::f32, 2});
    const Batch batch(formula_windows(m.vocabulary, 0, 2, 300, true), true);
    const auto trained = runner.train(store, batch), evaluated = runner.evaluate(store, batch);
    EXPECT_EQ(trained.loss_sum, evaluated.loss_sum) << m.name;
    EXPECT_EQ(trained.targets, evaluated.targets) << m.name;
    EXPECT_TRUE(runner.saved.empty());
  }
}

// The loss of an evaluation is that of the logits that generation sees, capped or not.
TEST(Decoder, LogitsGiveTheLoss) {
  for (auto m : {small_gpt2(), small_sandwich(), small_inside_post(), small_parallel()}) {
    if (m.logit_softcap > 0) m.logit_softcap = 0.05;
    PlainStore store(m, DType::f32, 1);
    const Batch batch(formula_windows(m.vocabulary, 0, 1, 9, false), false);
    double want = 0;
    const auto all = all_logits(m, store, batch);
    for (std::size_t t = 0; t < all.size(); ++t) {
      double sum = 0;
      for (std::int64_t v = 0; v < m.vocabulary; ++v) {
        const double x = base::at(all[t], v);
        sum += std::exp(x);
        EXPECT_TRUE(m.logit_softcap == 0 || std::abs(x) <= m.logit_softcap) << x;
      }
      want += std::log(sum) - static_cast<double>(base::at(all[t], batch.targets[t]));
    }
    Runner runner(m, {1, 9, DType::f32, 1});
    EXPECT_NEAR(runner.evaluate(store, batch).loss_sum, want, 1e-5) << m.name;
  }
}

// With the document mask, a change in one document changes no bit of another document's logits. Nor does it change
// gradients that only the other document makes.
TEST(Decoder, DocumentsAreIsolated) {
  for (const auto& base : {small_gpt2(), small_llama()}) {
    const auto m = wider(base);
    auto w = formula_windows(m.vocabulary, 0, 1, 200, false);
    w[0][69] = 0, w[0][139] = 0;  // documents [0, 70), [70, 140), [140, 200)
    auto edited = w;
    for (std::size_t i = 75; i < 130; ++i)
      edited[0][i] = (edited[0][i] * 5 + 3) % static_cast<std::int32_t>(m.vocabulary - 1) + 1;
    const Batch first(w, true), second(edited, true);
    PlainStore store(m, DType::f32, 1);
    const auto a = all_logits(m, store, first), b = all_logits(m, store, second);
    for (std::size_t t = 0; t < a.size(); ++t) {
      const bool same = std::memcmp(a[t].data(), b[t].data(), a[t].size() * 4) == 0;
      EXPECT_EQ(same, t < 75 || t >= 140) << m.name << " position " << t;
    }
    // Only the third document's places count in these gradients: the middle document must leave no trace.
    std::vector<std::vector<char>> bits;
    for (const auto& which : {w, edited}) {
      Batch batch(which, true);
      for (std::size_t i = 0; i < 140; ++i) batch.weights[i] = 0;
      Runner runner(m, {1, 200, DType::f32, 2});
      runner.train(store, batch);
      bits.push_back(store.gradient_bits());
    }
    EXPECT_TRUE(bits[0] == bits[1]) << m.name;
  }
}

// By day half of the teams and recomputations of a shape: the other half are tried with another shape.
TEST(Decoder, PredictedMemoryIsMeasuredMemory) {
  auto nano = plan::preset("gpt2-nano"), grouped = plan::preset("llama-nano");
  nano.vocabulary = grouped.vocabulary = 257;
  low_rank::register_branch();
  auto own = small_gpt2();  // with a branch from outside this library
  own.branches = {"attention", "low_rank", "ffn"};
  auto behind = small_llama();
  behind.norm_position = plan::NormPosition::post;
  auto windows = with_dropout(small_llama()), drawn = small_gpt2();
  windows.attention.layout = {"sliding", "dense"};
  drawn.attention.layout = {"bigbird"}, drawn.attention.block = 16, drawn.attention.per_head = true;
  for (const auto& base : {small_gpt2(), with_dropout(small_gpt2()), with_dropout(small_llama()),
                           with_dropout(small_post()), with_dropout(small_bert()), with_dropout(small_sandwich()),
                           small_inside_post(), small_parallel(), behind, nano, grouped, own, windows, drawn})
    for (const auto dtype : {DType::f32, DType::bf16, DType::f64})
      for (const auto& [b, t] : {std::pair<std::int64_t, std::int64_t>{1, 7}, {3, 24}, {2, 333}, {5, 65}})
        for (const int threads : {1, 3})
          for (const auto recompute : plan::recomputations) {
            auto m = base;
            m.context = 384;
            if (dtype == DType::f64 && b * t > 100) continue;  // the plain f64 path is slow and has no other shapes
            if (!testing::at_night() && (t + threads / 2 + static_cast<int>(recompute)) % 2 == 0) continue;
            const Batch batch(formula_windows(m.vocabulary, 0, b, t, false), false);
            const plan::MicroShape shape{{b, t}, {dtype, threads}};
            const auto where = fmt::format("{} {} b {} t {} threads {} recompute {}", m.name, base::name_of(dtype), b,
                                           t, threads, plan::name_of(recompute));
            {
              PlainStore store(m, dtype, 1);
              Runner runner(m, shape, recompute);
              runner.train(store, batch);
              EXPECT_EQ(runner.activations.peak_bytes(), plan::activation_bytes(m, shape, plan::Pass::train, recompute))
                  << where;
              EXPECT_EQ(runner.workspace.peak_bytes(), plan::workspace_bytes(m, shape, plan::Pass::train)) << where;
            }
            {
              PlainStore store(m, dtype, 1);
              Runner runner(m, shape, recompute);
              runner.evaluate(store, batch);
              EXPECT_EQ(runner.activations.peak_bytes(), plan::activation_bytes(m, shape, plan::Pass::evaluate))
                  << where;
              EXPECT_EQ(runner.workspace.peak_bytes(), plan::workspace_bytes(m, shape, plan::Pass::evaluate)) << where;
            }
          }
}

TEST(Decoder, AttentionMemoryGrowsLinearly) {
  for (const char* name : {"gpt2", "gpt2-xl", "llama-1b"}) {
    auto m = plan::preset(name);
    m.vocabulary = 50257;
    for (const auto pass : {plan::Pass::train, plan::Pass::evaluate}) {
      const auto bytes = [&](std::int64_t t) {
        const plan::MicroShape shape{{1, t}, {DType::f32, 4}};
        return static_cast<double>(plan::activation_bytes(m, shape, pass) + plan::workspace_bytes(m, shape, pass));
      };
      EXPECT_LE(bytes(4096), 2.1 * bytes(2048)) << name;
      EXPECT_GE(bytes(4096), 1.2 * bytes(2048)) << name;
    }
  }
}

// The gradient of a micro-batch is the sum of the gradients of its sequences. The micro-batch has several chunks of the
// head, and dropout is keyed by the sample.
TEST(Decoder, GradientsAddUpOverSequences) {
  for (const auto& base : {small_gpt2(), small_llama()}) {
    auto m = with_dropout(base);
    m.context = 200;
    const std::int64_t b = 3, t = 200;
    ASSERT_GT(b * t, 2 * plan::head_chunk_tokens(base::DeviceKind::cpu));
    const auto windows = formula_windows(m.vocabulary, 1, b, t, true);
    PlainStore whole(m, DType::f64, 1), part(m, DType::f64, 1);
    Runner runner(m, {b, t, DType::f64, 2}), single(m, {1, t, DType::f64, 2});
    const auto all = runner.train(whole, Batch(windows, true, 40));
    std::vector<std::vector<double>> sum;
    for (const auto& flat_group : part.master) sum.emplace_back(flat_group.size(), 0.0);
    double loss = 0;
    const auto every = [&](auto&& f) {
      for (std::size_t u = 0; u < part.flat_groups.size(); ++u)
        for (std::size_t p = 0; p < part.flat_groups[u].parameters.size(); ++p)
          for (std::int64_t i = 0; i < part.flat_groups[u].parameters[p].stored_count(); ++i)
            f(u, static_cast<int>(p), i, sum[u][static_cast<std::size_t>(part.layouts[u].offsets[p] + i)]);
    };
    for (std::int64_t s = 0; s < b; ++s) {
      loss +=
          single.train(part, Batch({windows[static_cast<std::size_t>(s)]}, true, 40 + static_cast<std::uint64_t>(s)))
              .loss_sum;
      every([&](std::size_t u, int p, std::int64_t i, double& x) { x += part.gradient_of(static_cast<int>(u), p, i); });
    }
    EXPECT_NEAR(all.loss_sum, loss, 1e-9 * loss) << m.name;
    double largest = 0, worst = 0;
    every([&](std::size_t u, int p, std::int64_t i, double& x) {
      largest = std::max(largest, std::abs(x));
      worst = std::max(worst, std::abs(x - whole.gradient_of(static_cast<int>(u), p, i)));
    });
    EXPECT_GT(largest, 0.1) << m.name;
    EXPECT_LT(worst, 1e-11 * largest) << m.name;
  }
}

TEST(Decoder, EverySiteOfDropoutActsInTrainingOnly) {
  const auto plain = small_gpt2();
  const Batch batch(formula_windows(plain.vocabulary, 0, 2, 20, false), false),
      later(formula_windows(plain.vocabulary, 0, 2, 20, false), false, 2);
  const auto run = [](const plan::ModelConfig& m, const Batch& micro, std::uint64_t seed) {
    PlainStore store(m, DType::f32, 1);
    for (auto& flat_group : store.master)
      for (auto& x : flat_group) x *= 4;  // so that attention and branches matter
    store.publish();
    Runner runner(m, {2, 20, DType::f32, 1});
    return std::pair{runner.train(store, micro, seed).loss_sum, runner.evaluate(store, micro).loss_sum};
  };
  const auto without = run(plain, batch, 7);
  EXPECT_EQ(without.first, without.second);
  std::vector<double> losses{without.first};
  for (double plan::ModelConfig::*site :
       {&plan::ModelConfig::dropout_embedding, &plan::ModelConfig::dropout_attention,
        &plan::ModelConfig::dropout_attention_residual, &plan::ModelConfig::dropout_ffn_residual}) {
    auto m = plain;
    m.*site = 0.3;
    const auto with = run(m, batch, 7);
    EXPECT_EQ(with.second, without.second) << "evaluation has no dropout";
    EXPECT_EQ(with.first, run(m, batch, 7).first) << "the same seed and samples";
    EXPECT_NE(with.first, run(m, batch, 8).first) << "another seed";
    EXPECT_NE(with.first, run(m, later, 7).first) << "other samples";
    for (double other : losses) EXPECT_NE(with.first, other) << "another site";
    losses.push_back(with.first);
  }
}

TEST(Decoder, EvaluationNeedsNoMoreMemoryThanTraining) {
  for (const auto& name : plan::preset_names())
    for (const auto dtype : {DType::f32, DType::bf16})
      for (const std::int64_t b : {1, 3, 16})
        for (const std::int64_t t : {1, 100, 1024})
          for (const auto recompute : plan::recomputations) {
            auto m = plan::preset(name);
            m.vocabulary = 50257;
            const plan::MicroShape shape{{b, t}, {dtype, 4}, m.encoder_layers > 0 ? t : 0};
            EXPECT_LE(plan::activation_bytes(m, shape, plan::Pass::evaluate),
                      plan::activation_bytes(m, shape, plan::Pass::train, recompute))
                << name;
            EXPECT_LE(plan::workspace_bytes(m, shape, plan::Pass::evaluate),
                      plan::workspace_bytes(m, shape, plan::Pass::train))
                << name;
          }
}

// A program outside the library may replace one of its blocks by a block of its own.
class CountedBlock : public model::Block {
 public:
  CountedBlock(std::unique_ptr<model::Block> inner, int& forwards) : inner_(std::move(inner)), forwards_(forwards) {}
  std::string name() const override { return "counted " + inner_->name(); }
  void forward(model::Step& step, model::Flow& flow, model::Saved& saved) override {
    ++forwards_, inner_->forward(step, flow, saved);
  }
  void backward(model::Step& step, model::Flow& flow, model::Saved& saved) override {
    inner_->backward(step, flow, saved);
  }

 private:
  std::unique_ptr<model::Block> inner_;
  int& forwards_;
};

TEST(Decoder, TakesRegisteredBlocks) {
  static int forwards = 0;
  static const auto m = small_gpt2();
  static const auto ours = model::block_factory("layer");
  model::register_block("layer", [](const plan::ModelConfig& c, const plan::PlacedBlock& place) {
    return std::make_unique<CountedBlock>(ours(c, place), forwards);
  });
  PlainStore store(m, DType::f32, 1);
  Runner runner(m, {2, 9, DType::f32, 1});
  runner.train(store, Batch(formula_windows(m.vocabulary, 0, 2, 9, false), false));
  EXPECT_EQ(forwards, m.layers);
  EXPECT_EQ(runner.decoder.blocks()[1]->name(), "counted layers.00");
  model::register_block("layer", ours);
}

TEST(Decoder, RefusesAModelThatCannotBe) {
  auto m = small_gpt2();
  m.heads = 5;
  EXPECT_THROW(model::assemble(m), base::UsageError);
  EXPECT_THROW(model::block_factory("convolution"), base::UsageError);
}

}  // namespace decoder_test
}  // namespace trainyard::test
