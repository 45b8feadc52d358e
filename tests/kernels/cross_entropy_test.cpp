// Compares losses and gradients with a double softmax: masked rows, padded columns, extreme logits, shared memory.
#include "kernels/cross_entropy/cross_entropy.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace cross_entropy_test {

constexpr std::int64_t tokens = 9, stored = 128, vocabulary = 101;

struct Problem {
  MatrixBuffer logits;
  std::vector<std::int32_t> targets{0, 100, 5, 7, -1, 50, 99, 1, 3};
  std::vector<std::uint8_t> weights{1, 1, 1, 1, 0, 1, 1, 1, 1};
  std::vector<double> losses = std::vector<double>(tokens, std::nan(""));
  // Columns from `vocabulary` on and the masked row hold NaN. Rows 5 to 7 are extreme.
  explicit Problem(DType t) : logits(accumulation(t), tokens, stored, 5) {
    MatrixBuffer values(logits.dtype, tokens, vocabulary);
    values.fill(3);
    for (std::int64_t r = 0; r < tokens; ++r)
      for (std::int64_t c = 0; c < vocabulary && r != 4; ++c)
        logits.set(r, c, 4 * values(r, c) * (r == 5 ? 2500 : 1) + (r == 6 ? 1e4 : r == 7 ? -1e4 : 0));
  }
  void run(tensor::Exec& exec, base::View dlogits, double loss_scale = 1) {
    kernels::cross_entropy_chunk(exec, {.logits = logits.view(),
                                        .targets = base::View::of(targets.data(), {tokens}),
                                        .weights = base::View::of(weights.data(), {tokens}),
                                        .vocabulary = vocabulary,
                                        .losses = base::View::of(losses.data(), {tokens}),
                                        .dlogits = dlogits,
                                        .loss_scale = loss_scale});
  }
};

TEST(CrossEntropy, LossesAndGradients) {
  sweep(
      [](tensor::Exec& exec, DType t) {
        Problem p(t), evaluation(t), shared(t);
        MatrixBuffer d(t, tokens, stored, 1), losses(DType::f64, 1, tokens);
        p.run(exec, d.view());
        evaluation.run(exec, {});
        EXPECT_EQ(p.losses, evaluation.losses);
        if (!base::is_narrow(t)) {
          shared.run(exec, shared.logits.view());
          for (std::int64_t r = 0; r < tokens; ++r)
            for (std::int64_t c = 0; c < stored; ++c) EXPECT_EQ(shared.logits(r, c), d(r, c)) << "in place";
        }
        for (std::int64_t r = 0; r < tokens; ++r) losses.set(0, r, p.losses[static_cast<std::size_t>(r)]);
        return std::vector{d, losses};
      },
      [](DType t, const std::vector<MatrixBuffer>& out) {
        const Problem p(t);
        for (std::int64_t r = 0; r < tokens; ++r) {
          const auto target = p.targets[static_cast<std::size_t>(r)];
          if (r == 4) {
            ASSERT_EQ(out[1](0, r), 0);
            for (std::int64_t c = 0; c < stored; ++c) ASSERT_EQ(out[0](r, c), 0) << "masked";
            continue;
          }
          double top = p.logits(r, 0), sum = 0;
          for (std::int64_t c = 0; c < vocabulary; ++c) top = std::max(top, p.logits(r, c));
          for (std::int64_t c = 0; c < vocabulary; ++c) sum += std::exp(p.logits(r, c) - top);
          ASSERT_TRUE(near(accumulation(t), out[1](0, r), std::log(sum) + (top - p.logits(r, target)), 1))
              << "loss " << r;
          for (std::int64_t c = 0; c < stored; ++c) {
            if (c >= vocabulary) ASSERT_EQ(out[0](r, c), 0) << "padding";
            else
              ASSERT_TRUE(near(t, out[0](r, c), std::exp(p.logits(r, c) - top) / sum - (c == target), 1))
                  << r << "," << c;
          }
        }
      });
}

// A power of two changes no digit of a gradient, and nothing of a loss.
TEST(CrossEntropy, TheLossScaleIsAFactorOfTheGradientAlone) {
  on_every_path([] {
    for (const auto t : {DType::f32, DType::bf16, DType::f64})
      for (const double scale : {65536.0, 0.25}) {
        Bench bench(1);
        Problem plain(t), scaled(t);
        MatrixBuffer d(t, tokens, stored), e(t, tokens, stored);
        plain.run(*bench, d.view());
        scaled.run(*bench, e.view(), scale);
        EXPECT_EQ(plain.losses, scaled.losses);
        for (std::int64_t r = 0; r < tokens; ++r)
          for (std::int64_t c = 0; c < stored; ++c)
            if (d(r, c) == 0 || std::abs(d(r, c)) > 1e-30) {
              ASSERT_EQ(e(r, c), d(r, c) * scale) << r << "," << c;
            }
      }
  });
}

TEST(CrossEntropy, AllMasked) {
  Bench bench(2);
  Problem p(DType::f32);
  p.weights.assign(tokens, 0);
  MatrixBuffer d(DType::f32, tokens, stored);
  p.run(*bench, d.view());
  EXPECT_EQ(kernels::sum_losses(*bench, base::View::of(p.losses.data(), {tokens})), 0);
  for (std::int64_t r = 0; r < tokens; ++r)
    for (std::int64_t c = 0; c < stored; ++c) ASSERT_EQ(d(r, c), 0);
}

TEST(CrossEntropy, ANanLogitShowsInTheLoss) {
  on_every_path([] {
    for (std::int64_t place : {0, 1, 17, 100}) {
      Bench bench(1);
      Problem p(DType::f32);
      p.logits.set(2, place, std::nan(""));
      p.run(*bench, {});
      EXPECT_TRUE(std::isnan(p.losses[2])) << place;
      EXPECT_FALSE(std::isnan(p.losses[3]));
    }
  });
}

TEST(CrossEntropy, RefusesTargetsOutsideTheVocabulary) {
  for (std::int32_t bad : {-1, 101, 127}) {
    Bench bench(1);
    Problem p(DType::f32);
    p.targets[2] = bad;
    EXPECT_THROW(p.run(*bench, {}), base::InputError) << bad;
  }
}

TEST(CrossEntropy, SumIsInAscendingOrder) {
  Bench bench(1);
  std::vector<double> losses{1, 1e17, -1e17, 3};
  EXPECT_EQ(kernels::sum_losses(*bench, base::View::of(losses.data(), {4})), 3);
}

}  // namespace cross_entropy_test
}  // namespace trainyard::test
