// Neighbouring linear layers with and without gaps between their weights: the input gradient is the sum over all of
// these layers, rounded once.
#include "libtrain/model/fused_linear.h"
#include "tests/model/small_model.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace fused_linear_test {

using base::DType;

plan::ModelConfig shape(std::int64_t hidden, std::int64_t ffn, bool biases) {
  auto m = small_llama();
  m.hidden = hidden, m.heads = 2, m.kv_heads = 1, m.ffn = ffn, m.biases = biases ? plan::Biases::on : plan::Biases::off;
  return m;
}

template <class T> void input_gradient(const plan::ModelConfig& m, DType dtype) {
  PlainStore store(m, dtype, 5);
  const plan::Occurrence occurrence{1, 0};
  const auto& flat_group = store.flat_groups[1];
  const int gate = plan::index_of(flat_group, "ffn.gate.weight"), up = plan::index_of(flat_group, "ffn.up.weight");
  const model::FusedLinear joined(
      {{gate, plan::find_index(flat_group, "ffn.gate.bias")}, {up, plan::find_index(flat_group, "ffn.up.bias")}});
  const std::int64_t n = 9, in = m.hidden, out = 2 * m.ffn;
  std::vector<T> dy(static_cast<std::size_t>(n * out)), dx(static_cast<std::size_t>(n * in));
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<T>(std::sin(0.37f * static_cast<float>(i)));
  const plan::MicroShape micro{{1, n}, {dtype, 1}};
  tensor::Arena workspace(tensor::Category::workspace, plan::workspace_bytes(m, micro, plan::Pass::train), {});
  const auto exec = tensor::Exec::caller(&workspace, 1);
  const auto lease = store.lease(occurrence);
  const Batch batch(formula_windows(m.vocabulary, 0, 1, n, false), false);
  model::Step step{*exec, &store, batch.micro, dtype, 0};
  std::vector<T> x(static_cast<std::size_t>(n * in));
  {
    auto grads = store.grads(occurrence);
    const model::AllRows input(step, base::View(x.data(), dtype, {n, in}, {}));
    const plan::Widths widths(m, 1);
    joined.backward(step, lease, grads,
                    {.dy = base::View(dy.data(), dtype, {n, out}),
                     .widths = widths,
                     .x = input,
                     .dx = base::View(dx.data(), dtype, {n, in})});
    grads.commit();
  }
  std::int64_t off = 0;
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = 0; c < in; ++c) {
      double want = 0;
      for (std::int64_t o = 0; o < out; ++o) {
        const auto weight = lease.weight(o < m.ffn ? gate : up);
        want += static_cast<double>(static_cast<float>(dy[static_cast<std::size_t>(r * out + o)])) *
                static_cast<double>(static_cast<float>(weight.template ptr<T>()[o % m.ffn * in + c]));
      }
      const double got = static_cast<float>(dx[static_cast<std::size_t>(r * in + c)]);
      EXPECT_NEAR(got, want, dtype == DType::bf16 ? 0.005 * std::abs(want) + 1e-5 : 1e-5);
      off += got != static_cast<double>(static_cast<float>(static_cast<T>(static_cast<float>(want))));
    }
  if (dtype == DType::bf16) {
    EXPECT_LE(off, n * in / 50) << "values that are not the sum rounded once, of " << n * in;
  }
}

TEST(FusedLinear, InputGradientIsRoundedOnceWithAndWithoutGaps) {
  for (const auto& m : {shape(32, 80, false), shape(36, 50, false), shape(32, 80, true), shape(28, 37, true)}) {
    input_gradient<base::bf16>(m, DType::bf16);
    input_gradient<float>(m, DType::f32);
  }
}

// Shapes with all kinds of gaps use the predicted memory, to the byte.
TEST(FusedLinear, PredictedMemoryIsMeasuredMemory) {
  for (auto m : {shape(36, 50, false), shape(32, 80, true), shape(28, 37, true), shape(260, 90, false),
                 shape(68, 70, true), shape(12, 3, true)})
    for (const auto dtype : {DType::f32, DType::bf16})
      for (const auto& [b, t] : {std::pair<std::int64_t, std::int64_t>{1, 7}, {2, 20}, {100, 40}}) {
        if (b == 100 && m.hidden != 68) continue;  // with so many rows the f32 sum needs the most memory of a layer
        for (const auto recompute : plan::recomputations) {
          m.context = 40, m.vocabulary = 40;
          const plan::MicroShape micro{{b, t}, {dtype, 2}};
          const auto where = fmt::format("hidden {} ffn {} biases {} {} b {} t {}", m.hidden, m.ffn,
                                         m.biases == plan::Biases::on, base::name_of(dtype), b, t);
          PlainStore store(m, dtype, 1);
          Runner runner(m, micro, recompute);
          runner.train(store, Batch(formula_windows(m.vocabulary, 0, b, t, false), false));
          EXPECT_EQ(runner.activations.peak_bytes(), plan::activation_bytes(m, micro, plan::Pass::train, recompute))
              << where;
          EXPECT_EQ(runner.workspace.peak_bytes(), plan::workspace_bytes(m, micro, plan::Pass::train)) << where;
        }
      }
}

}  // namespace fused_linear_test
}  // namespace trainyard::test
