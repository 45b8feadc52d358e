// Compares dropout with its counter formula: an element's coordinates decide, not where it is computed.
#include "kernels/dropout/dropout.h"
#include "libtrain/base/dropout_counter.h"
#include "libtrain/base/random.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace dropout_test {

constexpr std::int64_t sequence = 5, h = 23;
const std::uint64_t samples[] = {0, 7, (1ull << 30) - 1};
constexpr std::uint64_t seed = 0x123456789abcdefull, site = 0xfedcba9876543210ull;

bool kept(double p, std::uint64_t sample, std::int64_t t, std::int64_t c) {
  const auto words = base::random_words(
      seed, site,
      sample * (1ull << 34) + static_cast<std::uint64_t>(t) * (1ull << 14) + static_cast<std::uint64_t>(c) / 4);
  return words[static_cast<std::size_t>(c % 4)] >= p * 4294967296.0;
}

void check_probability(double p) {
  const kernels::Dropout dropout{p, seed, site, samples, sequence};
  sweep(
      [&](tensor::Exec& exec, DType t) {
        MatrixBuffer x(t, 15, h, 1), residual(t, 15, h, 2), y(t, 15, h, 3), dx(t, 15, h), sum(t, 15, h, 1);
        x.fill(1), residual.fill(2);
        kernels::dropout_forward(exec, dropout, x.view(), y.view());
        kernels::dropout_backward(exec, dropout, x.view(), dx.view());
        kernels::dropout_add(exec, dropout, residual.view(), x.view(), sum.view());
        kernels::dropout_forward(exec, dropout, x.view(), x.view());
        for (std::int64_t r = 0; r < 15; ++r)
          for (std::int64_t c = 0; c < h; ++c) EXPECT_EQ(x(r, c), y(r, c)) << "in place";
        return std::vector{y, dx, sum};
      },
      [&](DType t, const std::vector<MatrixBuffer>& out) {
        MatrixBuffer x(t, 15, h), residual(t, 15, h);
        x.fill(1), residual.fill(2);
        for (std::int64_t r = 0; r < 15; ++r)
          for (std::int64_t c = 0; c < h; ++c) {
            const bool keep = p == 0 || kept(p, samples[r / sequence], r % sequence, c);
            const double want = keep ? x(r, c) / (1 - p) : 0;
            if (p == 0 || !keep) {
              ASSERT_EQ(out[0](r, c), want);
            }
            ASSERT_TRUE(near(t, out[0](r, c), want, 0)) << r << "," << c;
            ASSERT_EQ(out[1](r, c), out[0](r, c)) << "the gradient has another mask at " << r << "," << c;
            ASSERT_TRUE(near(t, out[2](r, c), residual(r, c) + want, 1)) << r << "," << c;
          }
      });
}

TEST(Dropout, FollowsItsCounter) {
  for (double p : {0.1, 0.5, 0.9}) check_probability(p);
}
TEST(Dropout, ProbabilityZeroIsACopyAndNeedsNoSamples) {
  check_probability(0);
  Bench bench(1);
  MatrixBuffer x(DType::f32, 2, 3), y(DType::f32, 2, 3);
  x.fill(1);
  kernels::dropout_forward(*bench, {}, x.view(), y.view());
  EXPECT_EQ(x.bytes, y.bytes);
}

TEST(Dropout, AMicroBatchOfOneSequenceDropsTheSame) {
  Bench bench(1);
  MatrixBuffer x(DType::f32, 15, h), all(DType::f32, 15, h), one(DType::f32, 5, h);
  x.fill(1);
  kernels::dropout_forward(*bench, {0.4, seed, site, samples, sequence}, x.view(), all.view());
  kernels::dropout_forward(*bench, {0.4, seed, site, samples + 1, sequence}, x.view().row_range(5, 5), one.view());
  for (std::int64_t r = 0; r < 5; ++r)
    for (std::int64_t c = 0; c < h; ++c) ASSERT_EQ(one(r, c), all(r + 5, c));
}

// A rank's range of a micro-batch's rows drops the same elements, whatever sequence the range begins in.
TEST(Dropout, ARunOfRowsDropsTheSame) {
  for (std::int64_t first : {0, 1, 5, 7, 14})
    sweep(
        [&](tensor::Exec& exec, DType t) {
          MatrixBuffer x(t, 15, h, 1), residual(t, 15, h, 2), all(t, 15, h), sum(t, 15, h), one(t, 15, h),
              add(t, 15, h);
          x.fill(1), residual.fill(2);
          const kernels::Dropout whole{0.4, seed, site, samples, sequence};
          auto run = whole;
          run.first_row = first;
          const auto rows = [&](MatrixBuffer& m) { return m.view().row_range(first, 15 - first); };
          kernels::dropout_forward(exec, whole, x.view(), all.view());
          kernels::dropout_add(exec, whole, residual.view(), x.view(), sum.view());
          kernels::dropout_forward(exec, whole, x.view(), one.view());  // rows before the range
          kernels::dropout_add(exec, whole, residual.view(), x.view(), add.view());
          for (auto* m : {&one, &add})
            for (auto r = first; r < 15; ++r)
              for (std::int64_t c = 0; c < h; ++c) m->set(r, c, std::nan(""));
          kernels::dropout_forward(exec, run, rows(x), rows(one));
          kernels::dropout_add(exec, run, rows(residual), rows(x), rows(add));
          EXPECT_EQ(one.bytes, all.bytes) << "from row " << first;
          EXPECT_EQ(add.bytes, sum.bytes) << "from row " << first;
          kernels::dropout_backward(exec, run, rows(x), rows(one));
          EXPECT_EQ(one.bytes, all.bytes) << "gradient from row " << first;
          return std::vector{one, add};
        },
        [](DType, const std::vector<MatrixBuffer>&) {});
}

// A rank's columns of a tensor drop the same elements.
TEST(Dropout, ARunOfColumnsDropsTheSame) {
  for (std::int64_t first : {0, 4, 12, 20})
    sweep(
        [&](tensor::Exec& exec, DType t) {
          MatrixBuffer x(t, 15, h, 1), all(t, 15, h), part(t, 15, h);
          x.fill(1);
          const kernels::Dropout whole{0.4, seed, site, samples, sequence};
          auto columns = whole;
          columns.first_channel = first;
          kernels::dropout_forward(exec, whole, x.view(), all.view());
          kernels::dropout_forward(exec, columns, x.view().columns(first, h - first),
                                   part.view().columns(first, h - first));
          for (std::int64_t r = 0; r < 15; ++r)
            for (std::int64_t c = 0; c < h; ++c)
              if (c < first) part.set(r, c, all(r, c));
          EXPECT_EQ(part.bytes, all.bytes) << "from column " << first;
          return std::vector{part};
        },
        [](DType, const std::vector<MatrixBuffer>&) {});
}

TEST(Dropout, KeepsTheShareItPromises) {
  Bench bench(2);
  MatrixBuffer x(DType::f32, 1000, 400), y(DType::f32, 1000, 400);
  for (std::int64_t r = 0; r < 1000; ++r)
    for (std::int64_t c = 0; c < 400; ++c) x.set(r, c, 1);
  const std::uint64_t ordinals[] = {1, 2};
  for (double p : {0.1, 0.5}) {
    kernels::dropout_forward(*bench, {p, 3, 4, ordinals, 500}, x.view(), y.view());
    double count = 0;
    for (std::int64_t r = 0; r < 1000; ++r)
      for (std::int64_t c = 0; c < 400; ++c) count += y(r, c) != 0;
    EXPECT_NEAR(count, 400000 * (1 - p), 5 * std::sqrt(400000 * p * (1 - p)));
  }
}

// The widest row still has counters of its own. One channel or position more would share counters with the next row or
// sample, and is refused.
TEST(Dropout, NothingSharesACounterBelowTheLimits) {
  Bench bench(1);
  constexpr auto width = base::dropout_channels;
  MatrixBuffer x(DType::f32, 2, width), y(DType::f32, 2, width);
  for (std::int64_t r = 0; r < 2; ++r)
    for (std::int64_t c = 0; c < width; ++c) x.set(r, c, 1);
  kernels::dropout_forward(*bench, {0.5, seed, site, samples, 2}, x.view(), y.view());
  for (std::int64_t r = 0; r < 2; ++r)
    for (std::int64_t c = 0; c < width; ++c) ASSERT_EQ(y(r, c) != 0, kept(0.5, samples[0], r, c)) << r << "," << c;
  EXPECT_LT((base::dropout_positions - 1) << base::dropout_position_shift,
            std::int64_t{1} << base::dropout_sample_shift);
  EXPECT_LT(static_cast<std::uint64_t>(width / 4 - 1), std::uint64_t{1} << base::dropout_position_shift);
  EXPECT_EQ(base::dropout_samples - 1, static_cast<std::int64_t>(~std::uint64_t{0} >> base::dropout_sample_shift));
  MatrixBuffer wide(DType::f32, 1, width + 1);
  EXPECT_THROW(kernels::dropout_forward(*bench, {0.5, seed, site, samples, 1}, wide.view(), wide.view()),
               std::logic_error);
  EXPECT_THROW(
      kernels::dropout_forward(*bench, {0.5, seed, site, samples, base::dropout_positions + 1}, x.view(), y.view()),
      std::logic_error);
  kernels::dropout_forward(*bench, {0, seed, site, samples, 1}, wide.view(), wide.view());
}

}  // namespace dropout_test
}  // namespace trainyard::test
