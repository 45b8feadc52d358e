// Backward in two halves: the bits of one whole backward, whatever runs between the halves. It needs no more memory
// than forward left, and scratch and leases are as planned.
#include "libtrain/plan/schedule/accesses.h"
#include "tests/model/small_model.h"
#include "tests/tools/outside/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trainyard::test {
namespace weight_gradients_apart_test {

using base::DType;
using plan::WeightGradients;

struct Micro {
  Micro(const plan::ModelConfig& m, const plan::MicroShape& shape, Runner& runner, int first)
      : store(m, shape.dtype, 1),
        batch(formula_windows(m.vocabulary, first, shape.batch, shape.sequence, true), true, 40),
        activations(tensor::Category::activations, plan::activation_bytes(m, shape, plan::Pass::train), test_device()),
        saved(activations), step{*runner.exec, &store, batch.micro, shape.dtype, 7} {
    step.weight_gradients = shape.weight_gradients;
  }
  PlainStore store;
  Batch batch;
  tensor::Arena activations;
  model::Saved saved;
  model::Step step;
  model::Flow flow;
};

std::vector<plan::ModelConfig> models() {
  low_rank::register_branch();
  std::vector<plan::ModelConfig> out{with_dropout(small_gpt2()), with_dropout(small_llama())};
  auto outside = with_dropout(small_gpt2());
  outside.branches = {"attention", "ffn", "low_rank"};
  out.push_back(outside);
  out.push_back(with_dropout(small_post()));
  out.push_back(with_dropout(small_bert()));
  for (const auto& m : {small_sandwich(), small_inside_post(), small_parallel()}) out.push_back(with_dropout(m));
  auto behind = small_llama();
  behind.norm_position = plan::NormPosition::post;
  out.push_back(behind);
  for (const auto norm : {plan::QkNorm::head, plan::QkNorm::width}) {
    auto& normed = out.emplace_back(with_dropout(small_llama()));
    normed.name += norm == plan::QkNorm::head ? "-head" : "-width";
    normed.qk_norm = norm, normed.head_size = norm == plan::QkNorm::head ? 12 : 0, normed.lanes = 2;
    normed.biases = plan::Biases::qkv;
  }
  return out;
}

// Two micro-batches: both forward passes, then both input gradients, then both weight gradients.
TEST(WeightGradientsApart, SameBitsAndPredictedMemory) {
  for (auto m : models())
    for (const auto dtype : {DType::f32, DType::bf16}) {
      if (emulated()) m.hidden = 16, m.heads = 2, m.kv_heads = m.kv_heads == 4 ? 2 : 1, m.ffn = 24, m.lanes = 1;
      auto shape = Runner::on_device({{2, 16}, {dtype, 1}});
      std::vector<std::pair<double, std::vector<char>>> expected;
      Runner whole(m, shape);
      for (int first : {0, 5}) {
        PlainStore store(m, dtype, 1);
        const Batch batch(formula_windows(m.vocabulary, first, 2, 16, true), true, 40);
        const auto loss = whole.train(store, batch).loss_sum;
        expected.emplace_back(loss, store.gradient_bits());
      }
      shape.weight_gradients = WeightGradients::apart;
      Runner runner(m, shape);
      Micro a(m, shape, runner, 0), b(m, shape, runner, 5);
      std::vector<std::int64_t> kept;
      for (auto* micro : {&a, &b}) {
        micro->flow = runner.decoder.forward(micro->step, micro->saved);
        kept.push_back(micro->activations.used_bytes());
      }
      for (auto* micro : {&a, &b}) runner.decoder.input_gradients(micro->step, micro->flow, micro->saved);
      EXPECT_LE(a.activations.used_bytes(), kept[0]);
      EXPECT_GT(a.activations.used_bytes(), 0);
      EXPECT_EQ(a.store.opened, 0);
      EXPECT_EQ(a.store.held, 0);
      for (auto* micro : {&a, &b}) runner.decoder.weight_gradients(micro->step, micro->flow, micro->saved);
      runner.exec->synchronize();
      for (std::size_t i = 0; i < 2; ++i) {
        auto& micro = i == 0 ? a : b;
        micro.store.pull();
        EXPECT_EQ(micro.step.loss_sum, expected[i].first) << m.name;
        EXPECT_TRUE(micro.store.gradient_bits() == expected[i].second) << m.name << " " << base::name_of(dtype);
        EXPECT_EQ(micro.activations.peak_bytes(), plan::activation_bytes(m, shape, plan::Pass::train)) << m.name;
        EXPECT_EQ(micro.activations.used_bytes(), 0);
      }
      EXPECT_EQ(runner.workspace.peak_bytes(), plan::workspace_bytes(m, shape, plan::Pass::train)) << m.name;
    }
}

// Split backward keeps no more data for each token than a whole backward, only a few vectors for the norms.
TEST(WeightGradientsApart, KeepsAsManyRows) {
  for (const auto& m : {small_gpt2(), small_llama(), small_post()}) {
    plan::MicroShape whole{{4, 64}, {DType::bf16, 1}}, apart = whole;
    apart.weight_gradients = WeightGradients::apart;
    const auto more =
        plan::activation_bytes(m, apart, plan::Pass::train) - plan::activation_bytes(m, whole, plan::Pass::train);
    const auto vectors = m.norm == plan::Norm::layer ? 2 : 1;
    EXPECT_EQ(more, m.layers * 2 * base::aligned(vectors * m.hidden * 4));
  }
}

// Leases and commits follow the lists that stores and idle ranks use.
TEST(WeightGradientsApart, LeasesAndCommitsAsPredicted) {
  using Kind = plan::Access::Kind;
  for (const auto& m : models()) {
    const plan::ModelPart part(m);
    auto shape = Runner::on_device({{2, 8}, {DType::f32, 1}});
    shape.weight_gradients = WeightGradients::apart;
    Runner runner(m, shape);
    Micro micro(m, shape, runner, 0);
    micro.flow = runner.decoder.forward(micro.step, micro.saved);
    const auto seen = [&] {
      std::vector<std::pair<Kind, plan::Occurrence>> out;
      for (const auto& call : micro.store.calls) {
        if (call.kind == PlainStore::Call::acquire) out.emplace_back(Kind::lease, call.occurrence);
        if (call.kind == PlainStore::Call::commit) out.emplace_back(Kind::commit, call.occurrence);
      }
      micro.store.calls.clear();
      return out;
    };
    const auto predicted = [](const std::vector<plan::Access>& accesses) {
      std::vector<std::pair<Kind, plan::Occurrence>> out;
      for (const auto& a : accesses) out.emplace_back(a.kind, a.occurrence);
      return out;
    };
    seen();
    runner.decoder.input_gradients(micro.step, micro.flow, micro.saved);
    EXPECT_TRUE(seen() == predicted(plan::input_gradient_accesses(part)));
    runner.decoder.weight_gradients(micro.step, micro.flow, micro.saved);
    EXPECT_TRUE(seen() == predicted(plan::weight_gradient_accesses(part)));
    EXPECT_EQ(plan::input_gradient_accesses(part).size() + plan::weight_gradient_accesses(part).size(),
              plan::backward_accesses(part).size());
  }
}

// An entry popped between kept entries frees its memory together with the entries above it.
TEST(WeightGradientsApart, TheStackGivesBackFromTheTop) {
  tensor::Arena arena(tensor::Category::activations, 4 * 64, test_device());
  model::Saved saved(arena);
  std::vector<base::View> views;
  for (int i = 0; i < 4; ++i) views.push_back(saved.push(DType::f32, {16}));
  EXPECT_EQ(saved.pop().data, views[3].data);
  EXPECT_EQ(arena.used_bytes(), 3 * 64);
  EXPECT_EQ(saved.keep().data, views[2].data);
  EXPECT_EQ(saved.pop().data, views[1].data);
  EXPECT_EQ(saved.top().data, views[0].data);
  EXPECT_EQ(arena.used_bytes(), 3 * 64);
  EXPECT_ANY_THROW(saved.push(DType::f32, {16}));
  saved.pop_kept();
  EXPECT_EQ(saved.pop().data, views[2].data);
  EXPECT_EQ(arena.used_bytes(), 64);
  EXPECT_EQ(saved.pop().data, views[0].data);
  EXPECT_TRUE(saved.empty());
  EXPECT_ANY_THROW(saved.pop());
}

}  // namespace weight_gradients_apart_test
}  // namespace trainyard::test
