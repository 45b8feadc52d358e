// Activation recomputation: what a layer's second forward computes and what it leaves out; same bits, predicted memory.
#include "libtrain/model/assemble.h"
#include "libtrain/plan/cost/flops.h"
#include "tests/model/small_model.h"
#include "tests/tools/outside/low_rank.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <vector>

namespace trainyard::test {
namespace recompute_test {

using base::DType;

struct Forwards {
  int with_output = 0, without = 0;
};

// x + B A norm(x). The test chooses whether it can skip an unread output; it counts its forwards with and without one.
struct CountedKind : low_rank::Kind {
  explicit CountedKind(bool skips) : skips_(skips) {}
  bool skips_unread_output() const override { return skips_; }
  double output_flops(const plan::ModelConfig& m) const override {
    return 2.0 * low_rank::r * static_cast<double>(m.hidden);
  }
  bool skips_;
};

struct CountedBranch : low_rank::Branch {
  CountedBranch(const model::BranchSpec& spec, Forwards& forwards) : low_rank::Branch(spec), forwards_(forwards) {}
  void forward(model::Step& step, const params::Lease& lease, const model::SavedSet& t,
               base::View output) const override {
    ++(output ? forwards_.with_output : forwards_.without);
    if (output) return low_rank::Branch::forward(step, lease, t, output);
    kernels::linear_forward(step.exec, t["normed"], lease.weight(a), {}, t["inner"]);
  }
  Forwards& forwards_;
};

void register_counted(bool skips, Forwards& forwards) {
  model::register_branch("counted", std::make_shared<CountedKind>(skips), [&forwards](const model::BranchSpec& spec) {
    return std::make_unique<CountedBranch>(spec, forwards);
  });
}

plan::ModelConfig of_branches(std::vector<std::string> branches) {
  auto m = with_dropout(small_gpt2());
  m.branches = std::move(branches);
  return m;
}

// Only the last branch skips its output, only if it says that it can, and only in backward.
TEST(Recompute, TheSecondForwardEndsWithWhatTheLastBranchSaves) {
  auto position = plan::NormPosition::pre;
  bool parallel = false;
  const auto count = [&](const std::vector<std::string>& branches, bool skips, plan::Recompute recompute) {
    Forwards forwards;
    register_counted(skips, forwards);
    auto m = of_branches(branches);
    m.norm_position = position, m.parallel_residual = parallel;
    PlainStore store(m, DType::f32, 1);
    Runner runner(m, {2, 9, DType::f32, 1}, recompute);
    const Batch batch(formula_windows(m.vocabulary, 0, 2, 9, false), false);
    runner.train(store, batch);
    const auto trained = forwards;
    runner.evaluate(store, batch);
    EXPECT_EQ(forwards.with_output - trained.with_output, m.layers);
    EXPECT_EQ(forwards.without, trained.without);
    return std::pair(trained.with_output, trained.without);
  };
  const std::vector<std::string> last{"attention", "ffn", "counted"}, first{"counted", "attention", "ffn"};
  const int layers = 2;
  EXPECT_EQ(count(last, true, plan::Recompute::layers), std::pair(layers, layers));
  EXPECT_EQ(count(last, true, plan::Recompute::none), std::pair(layers, 0));
  EXPECT_EQ(count(last, true, plan::Recompute::selective), std::pair(layers, 0));
  EXPECT_EQ(count(last, false, plan::Recompute::layers), std::pair(2 * layers, 0));
  EXPECT_EQ(count(first, true, plan::Recompute::layers), std::pair(2 * layers, 0));
  // A norm behind the last branch reads the branch's output.
  for (const auto behind : {plan::NormPosition::post, plan::NormPosition::inside_post, plan::NormPosition::sandwich}) {
    position = behind;
    EXPECT_EQ(count(last, true, plan::Recompute::layers), std::pair(2 * layers, 0));
  }
  // Nobody reads the sum of branches that are side by side.
  position = plan::NormPosition::pre, parallel = true;
  EXPECT_EQ(count(first, true, plan::Recompute::layers), std::pair(layers, layers));
}

// Any branch may be the last one, also a branch written before skips_unread_output existed.
TEST(Recompute, SameBitsAndPredictedMemory) {
  low_rank::register_branch();
  Forwards forwards;
  register_counted(true, forwards);
  for (const auto& branches : std::vector<std::vector<std::string>>{{"attention", "ffn"},
                                                                    {"ffn", "attention"},
                                                                    {"attention"},
                                                                    {"ffn"},
                                                                    {"attention", "ffn", "low_rank"},
                                                                    {"attention", "ffn", "counted"},
                                                                    {"low_rank"},
                                                                    {"counted"}})
    for (const auto& [position, dtype] : {std::pair{std::optional(plan::NormPosition::pre), DType::f32},
                                          {plan::NormPosition::pre, DType::bf16},
                                          {plan::NormPosition::post, DType::f32},
                                          {plan::NormPosition::post, DType::bf16},
                                          {plan::NormPosition::sandwich, DType::bf16},
                                          {plan::NormPosition::inside_post, DType::bf16},
                                          {std::nullopt, DType::bf16}}) {
      auto m = of_branches(branches);
      m.norm_position = position.value_or(plan::NormPosition::pre), m.parallel_residual = !position;
      const plan::MicroShape shape = Runner::on_device({{2, 24}, {dtype, 1}});
      const Batch batch(formula_windows(m.vocabulary, 0, 2, 24, true), true, 40);
      const auto run = [&, dtype = dtype](const plan::Recomputation& recompute) {
        PlainStore store(m, dtype, 1);
        Runner runner(m, shape, recompute);
        const auto loss = runner.train(store, batch).loss_sum;
        const auto where = fmt::format("{} of {} branches, recompute {}", branches.back(), branches.size(),
                                       plan::recomputation_text(recompute));
        EXPECT_EQ(runner.activations.peak_bytes(), plan::activation_bytes(m, shape, plan::Pass::train, recompute))
            << where;
        EXPECT_EQ(runner.workspace.peak_bytes(), plan::workspace_bytes(m, shape, plan::Pass::train)) << where;
        EXPECT_EQ(runner.activations.used_bytes() + runner.workspace.used_bytes(), 0) << where;
        return std::pair(loss, store.gradient_bits());
      };
      const auto want = run(plan::Recompute::none);
      EXPECT_TRUE(run(plan::Recompute::layers) == want) << branches.back();
      EXPECT_TRUE(run(plan::Recompute::selective) == want) << branches.back();
      EXPECT_TRUE(run(plan::Recomputation(0.5, 0)) == want) << branches.back();
      EXPECT_TRUE(run(plan::Recomputation(0.3, 0.4)) == want) << branches.back();
    }
}

// Between forward and backward the stack holds exactly what selective recomputation keeps of every layer, to the byte.
// It keeps the input and the statistics of norms, and the input of the activation. Where a GPU's library fuses GELU, it
// keeps the output of the activation too. The bits are the same.
TEST(Recompute, SelectiveKeepsWhatAlwaysStaysAndHasTheSameBits) {
  for (const auto& base :
       {with_dropout(small_gpt2()), with_dropout(small_llama()), with_dropout(small_post()), with_dropout(small_bert()),
        with_dropout(small_sandwich()), with_dropout(small_inside_post()), with_dropout(small_parallel())})
    for (const auto dtype : {DType::f32, DType::bf16}) {
      auto m = base;
      if (emulated()) m.hidden = 16, m.heads = 2, m.kv_heads = 1, m.ffn = 24;
      const auto shape = Runner::on_device({{2, 16}, {dtype, 1}});
      const Batch batch(formula_windows(m.vocabulary, 0, 2, 16, true), true, 40);
      const auto run = [&](plan::Recompute recompute) {
        PlainStore store(m, dtype, 1);
        Runner runner(m, shape, recompute);
        model::Step step{*runner.exec, &store, batch.micro, dtype, 7};
        auto flow = runner.decoder.forward(step, runner.saved);
        const auto kept = runner.activations.used_bytes();
        runner.decoder.backward(step, flow, runner.saved);
        runner.exec->synchronize();
        EXPECT_EQ(runner.activations.peak_bytes(), plan::activation_bytes(m, shape, plan::Pass::train, recompute));
        EXPECT_EQ(runner.workspace.peak_bytes(), plan::workspace_bytes(m, shape, plan::Pass::train));
        store.pull();
        return std::pair(kept, std::pair(step.loss_sum, store.gradient_bits()));
      };
      const auto all = run(plan::Recompute::none), some = run(plan::Recompute::selective);
      EXPECT_TRUE(some.second == all.second) << m.name << " " << base::name_of(dtype);
      const bool fused = on_gpu() && m.activation == plan::Activation::gelu_tanh;
      const auto normed = 2 * 16 * m.hidden, activated = fused ? 0 : 2 * 16 * m.ffn;
      // With norms behind, a branch's input may be the hidden states, which nothing recomputes.
      const auto norms = m.norm_position == plan::NormPosition::post          ? 1
                         : m.norm_position == plan::NormPosition::inside_post ? 0
                                                                              : 2;
      EXPECT_EQ(all.first - some.first, m.layers * (norms * normed + activated) * base::size_of(dtype)) << m.name;
    }
}

// A rank with two virtual stages of a layer each: half of its layers is the layer of the first.
TEST(Recompute, LayersOfVirtualStagesAreCountedOn) {
  auto m = small_gpt2();
  m.layers = 4;
  const plan::ModelPart part(m, {{1, 2}, {3, 4}});
  const auto wrapped_as = [&](const plan::Recomputation& recompute, int chunk) {
    const auto blocks = model::assemble(part, recompute, chunk);
    const auto& block = *blocks.at(0);
    return std::type_index(typeid(block));
  };
  const auto plain = wrapped_as({}, 0), full = wrapped_as(plan::Recompute::layers, 0),
             selective = wrapped_as(plan::Recompute::selective, 0);
  ASSERT_TRUE(plain != full && plain != selective && full != selective);
  EXPECT_EQ(wrapped_as({0.5, 0}, 0), full);
  EXPECT_EQ(wrapped_as({0.5, 0}, 1), plain);
  EXPECT_EQ(wrapped_as({0.5, 0.5}, 1), selective);
  EXPECT_EQ(wrapped_as({0.5, 0.5}, 0), full);
}

// Counted by hand for each token of a step of one layer: 2 for each weight of a product. Selective recomputes no
// product.
TEST(Recompute, FlopsAreThoseOfWhatIsMadeAgain) {
  low_rank::register_branch();
  Forwards forwards;
  auto position = plan::NormPosition::pre;
  const auto again = [&](const std::vector<std::string>& branches) {
    auto m = of_branches(branches);
    m.norm_position = position;
    m.layers = 1;
    EXPECT_EQ(plan::step_flops(m, 1, 1, plan::Recompute::selective), plan::step_flops(m, 1, 1));
    return plan::step_flops(m, 1, 1, plan::Recompute::layers) - plan::step_flops(m, 1, 1, plan::Recompute::none);
  };
  const double h = 32, ffn = 96, r = low_rank::r, attention = 2 * 4 * h * h + 4 * h, inner = 2 * h * ffn;
  EXPECT_EQ(again({"attention", "ffn"}), attention + inner);
  EXPECT_EQ(again({"ffn", "attention"}), 2 * inner + attention - 2 * h * h);
  EXPECT_EQ(again({"attention", "ffn", "low_rank"}), attention + 2 * inner + 2 * 2 * r * h);
  register_counted(true, forwards);
  EXPECT_EQ(again({"attention", "counted"}), attention + 2 * r * h);
  EXPECT_EQ(again({"counted", "ffn"}), 2 * 2 * r * h + inner);
  register_counted(false, forwards);
  EXPECT_EQ(again({"attention", "counted"}), attention + 2 * 2 * r * h);
  position = plan::NormPosition::post;
  EXPECT_EQ(again({"attention", "ffn"}), attention + 2 * inner);
  position = plan::NormPosition::sandwich;
  EXPECT_EQ(again({"attention", "ffn"}), attention + 2 * inner);
}

}  // namespace recompute_test
}  // namespace trainyard::test
