// States in bf16: an update computes as with f32 states of the same values, and rounds the states when it is done.
#include "kernels/update/update.h"
#include "tests/kernels/sweep.h"

#include <algorithm>

namespace trainyard::test {
namespace update_states_test {

constexpr int update_steps = 5;

// Runs the rule with states in bf16, and beside it with f32 states that the test rounds after each step.
void expect_rounded_states(const kernels::UpdateRule& rule, std::size_t states, std::int64_t n, int threads) {
  Bench bench(threads);
  MatrixBuffer p(DType::f32, 1, n), expected_p(DType::f32, 1, n), working(DType::f16, 1, n);
  p.fill(1), expected_p.fill(1);
  std::vector<MatrixBuffer> narrow, wide;
  std::array<base::View, kernels::most_states> narrow_views{}, wide_views{};
  for (std::size_t s = 0; s < states; ++s) {
    narrow.emplace_back(DType::bf16, 1, n), wide.emplace_back(DType::f32, 1, n);
    for (std::int64_t i = 0; i < n; ++i) narrow[s].set(0, i, 0), wide[s].set(0, i, 0);
  }
  for (std::size_t s = 0; s < states; ++s) narrow_views[s] = narrow[s].view(), wide_views[s] = wide[s].view();
  const std::vector<kernels::Range> decayed{{0, n / 3}, {n / 2, n}};
  std::int64_t moved = 0;
  for (int step = 0; step < update_steps; ++step) {
    MatrixBuffer g(DType::f32, 1, n);
    g.fill(static_cast<std::uint64_t>(step) + 2);
    kernels::update(*bench, {.rule = rule,
                             .gradient = g.view(),
                             .parameter = p.view(),
                             .states = narrow_views,
                             .working = working.view(),
                             .decayed = decayed});
    kernels::update(
        *bench,
        {.rule = rule, .gradient = g.view(), .parameter = expected_p.view(), .states = wide_views, .decayed = decayed});
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(p(0, i), expected_p(0, i)) << "step " << step + 1 << ", element " << i << " of " << n;
      for (std::size_t s = 0; s < states; ++s) {
        const auto exact = static_cast<float>(wide[s](0, i)), rounded = static_cast<float>(base::bf16(exact));
        ASSERT_EQ(narrow[s](0, i), static_cast<double>(rounded)) << "step " << step + 1 << ", state " << s;
        moved += rounded != exact;
        wide[s].set(0, i, static_cast<double>(rounded));
      }
    }
  }
  EXPECT_GT(moved, n / 2) << "rounding hardly changes anything";
}

TEST(UpdateStates, InBf16AreRoundedAfterTheUpdate) {
  kernels::AdamW adamw, adam;
  adamw.learning_rate = adam.learning_rate = 1e-2f, adamw.weight_decay = adam.weight_decay = 0.1f;
  adamw.bias1 = adam.bias1 = 0.3, adamw.bias2 = adam.bias2 = 0.02, adam.decay_in_gradient = true;
  kernels::Lion lion;
  lion.learning_rate = 1e-2f, lion.weight_decay = 0.1f;
  kernels::Sgd sgd;
  sgd.learning_rate = 1e-2f, sgd.weight_decay = 0.1f, sgd.nesterov = true;
  for (const std::int64_t n : {17, 1024, 8192 * 3 + 5})
    for (const int threads : {1, 3}) {
      expect_rounded_states(adamw, 2, n, threads);
      expect_rounded_states(adam, 2, n, threads);
      expect_rounded_states(lion, 1, n, threads);
      expect_rounded_states(sgd, 1, n, threads);
    }
}

}  // namespace update_states_test
}  // namespace trainyard::test
