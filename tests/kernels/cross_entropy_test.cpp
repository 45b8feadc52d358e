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
  void run(tensor::Exec& exec, base::View dlogits, double loss_scale = 1, double softcap = 0, double smoothing = 0) {
    kernels::cross_entropy_chunk(exec, {.logits = logits.view(),
                                        .targets = base::View::of(targets.data(), {tokens}),
                                        .weights = base::View::of(weights.data(), {tokens}),
                                        .vocabulary = vocabulary,
                                        .losses = base::View::of(losses.data(), {tokens}),
                                        .dlogits = dlogits,
                                        .loss_scale = loss_scale,
                                        .softcap = softcap,
                                        .label_smoothing = smoothing});
  }
};

// A cap of 0 is none, and so is a smoothing of 0.
void losses_and_gradients(double softcap, double smoothing) {
  sweep(
      [=](tensor::Exec& exec, DType t) {
        Problem p(t), evaluation(t), shared(t);
        MatrixBuffer d(t, tokens, stored, 1), losses(DType::f64, 1, tokens);
        p.run(exec, d.view(), 1, softcap, smoothing);
        evaluation.run(exec, {}, 1, softcap, smoothing);
        EXPECT_EQ(p.losses, evaluation.losses);
        if (!base::is_narrow(t)) {
          shared.run(exec, shared.logits.view(), 1, softcap, smoothing);
          for (std::int64_t r = 0; r < tokens; ++r)
            for (std::int64_t c = 0; c < stored; ++c) EXPECT_EQ(shared.logits(r, c), d(r, c)) << "in place";
        }
        for (std::int64_t r = 0; r < tokens; ++r) losses.set(0, r, p.losses[static_cast<std::size_t>(r)]);
        return std::vector{d, losses};
      },
      [=](DType t, const std::vector<MatrixBuffer>& out) {
        const Problem p(t);
        const auto logit = [&](std::int64_t r, std::int64_t c) {
          return softcap > 0 ? softcap * std::tanh(p.logits(r, c) / softcap) : p.logits(r, c);
        };
        const auto slope = [&](std::int64_t r, std::int64_t c) {
          const double t1 = softcap > 0 ? std::tanh(p.logits(r, c) / softcap) : 0;
          return 1 - t1 * t1;
        };
        for (std::int64_t r = 0; r < tokens; ++r) {
          const auto target = p.targets[static_cast<std::size_t>(r)];
          if (r == 4) {
            ASSERT_EQ(out[1](0, r), 0);
            for (std::int64_t c = 0; c < stored; ++c) ASSERT_EQ(out[0](r, c), 0) << "masked";
            continue;
          }
          double top = logit(r, 0), sum = 0, mean = 0, largest = 0;
          for (std::int64_t c = 0; c < vocabulary; ++c) top = std::max(top, logit(r, c));
          for (std::int64_t c = 0; c < vocabulary; ++c) sum += std::exp(logit(r, c) - top);
          for (std::int64_t c = 0; c < vocabulary; ++c) {
            mean += logit(r, c) / static_cast<double>(vocabulary);
            largest = std::max(largest, std::abs(logit(r, c)));
          }
          const double expected = (1 - smoothing) * logit(r, target) + smoothing * mean;
          ASSERT_TRUE(
              near(accumulation(t), out[1](0, r), std::log(sum) + (top - expected), 1 + softcap + smoothing * largest))
              << "loss " << r;
          for (std::int64_t c = 0; c < stored; ++c) {
            if (c >= vocabulary) ASSERT_EQ(out[0](r, c), 0) << "padding";
            else
              ASSERT_TRUE(near(t, out[0](r, c),
                               (std::exp(logit(r, c) - top) / sum - (1 - smoothing) * (c == target) -
                                smoothing / static_cast<double>(vocabulary)) *
                                   slope(r, c),
                               1))
                  << r << "," << c;
          }
        }
      });
}

TEST(CrossEntropy, LossesAndGradients) { losses_and_gradients(0, 0); }
TEST(CrossEntropy, CappedLosses) {
  losses_and_gradients(30, 0);
  losses_and_gradients(1.5, 0);
}
TEST(CrossEntropy, SmoothedLosses) {
  losses_and_gradients(0, 0.1);
  losses_and_gradients(0, 0.9);
  losses_and_gradients(1.5, 0.3);
}

// Odd widths, and lanes that end inside the vocabulary or behind it: the gradient of each logit is the slope of the
// loss, and a column that rounds the vocabulary up has none.
TEST(CrossEntropy, TheGradientOfASmoothedLossIsItsSlope) {
  struct Width {
    std::int64_t columns, stored, lanes;
  };
  on_every_path([] {
    for (const auto& [columns, stored, lanes] :
         {Width{1, 16, 1}, Width{2, 16, 4}, Width{17, 48, 3}, Width{101, 128, 8}})
      for (const double softcap : {0.0, 2.0}) {
        Bench bench(1);
        MatrixBuffer logits(DType::f64, 1, stored), d(DType::f64, 1, stored);
        logits.fill(2);
        auto target = static_cast<std::int32_t>(columns / 2);
        std::uint8_t weight = 1;
        const auto loss = [&, columns = columns, lanes = lanes](base::View dlogits) {
          double value = 0;
          kernels::cross_entropy_chunk(*bench, {.logits = logits.view(),
                                                .targets = base::View::of(&target, {1}),
                                                .weights = base::View::of(&weight, {1}),
                                                .vocabulary = columns,
                                                .lanes = lanes,
                                                .losses = base::View::of(&value, {1}),
                                                .dlogits = dlogits,
                                                .softcap = softcap,
                                                .label_smoothing = 0.2});
          return value;
        };
        loss(d.view());
        for (std::int64_t c = 0; c < stored; ++c) {
          const double x = logits(0, c), h = 1e-4;
          const auto at = [&](double step) {
            logits.set(0, c, x + step);
            return loss({});
          };
          const double slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
          logits.set(0, c, x);
          ASSERT_NEAR(d(0, c), slope, 1e-10) << c << " of " << columns << ", cap " << softcap;
        }
      }
  });
}

TEST(CrossEntropy, RefusesASmoothingThatIsNoShare) {
  for (const double bad : {-0.1, 1.0, std::nan("")}) {
    Bench bench(1);
    Problem p(DType::f32);
    EXPECT_THROW(p.run(*bench, {}, 1, 0, bad), std::logic_error) << bad;
  }
}

// The relative error of a capped logit is small, too, wherever the logit is.
TEST(CrossEntropy, CapsLogits) {
  on_every_path([] {
    for (const auto t : {DType::f32, DType::f64}) {
      Bench bench(2);
      MatrixBuffer logits(t, 2, 20001, 3), capped(t, 2, 20001, 3);
      for (std::int64_t c = 0; c < logits.cols; ++c) {
        const double x = -200 + 400.0 * static_cast<double>(c) / 20000;
        logits.set(0, c, x), logits.set(1, c, x * 1e-3);
        capped.set(0, c, x), capped.set(1, c, x * 1e-3);
      }
      kernels::cap_logits(*bench, capped.view(), 30);
      for (std::int64_t r = 0; r < 2; ++r)
        for (std::int64_t c = 0; c < logits.cols; ++c) {
          const double want = 30 * std::tanh(logits(r, c) / 30);
          ASSERT_LE(std::abs(capped(r, c) - want), (t == DType::f32 ? 5e-7 : 2e-15) * std::abs(want)) << logits(r, c);
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
