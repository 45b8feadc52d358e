// Compares cross entropy over a sharded vocabulary with one rank that has the same lanes, bit for bit, and with a
// double softmax.
#include "kernels/cross_entropy/cross_entropy.h"
#include "tests/kernels/sweep.h"

#include <bit>

namespace trainyard::test {
namespace cross_entropy_cut_test {

constexpr std::int64_t tokens = 9;

struct Sizes {
  std::int64_t vocabulary, stored;
  double softcap = 0, smoothing = 0;
  std::int64_t numbers() const { return smoothing > 0 ? 4 : 3; }
};
// Slices that end inside the vocabulary, slices that lie behind it, a single column, capped logits, smoothed labels.
const Sizes all_sizes[] = {{101, 128},     {257, 384},         {384, 384},       {1, 128},
                           {257, 384, 20}, {257, 384, 0, 0.1}, {1, 128, 0, 0.5}, {101, 384, 20, 0.3}};

struct Problem {
  Sizes sizes;
  MatrixBuffer logits;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> weights{1, 1, 1, 1, 0, 1, 1, 1, 1};
  // Columns from `vocabulary` on and the masked row hold NaN. Rows 5 to 7 are extreme.
  Problem(DType t, Sizes s) : sizes(s), logits(accumulation(t), tokens, s.stored, 5) {
    MatrixBuffer values(logits.dtype, tokens, s.vocabulary);
    values.fill(3);
    for (std::int64_t r = 0; r < tokens; ++r) {
      targets.push_back(static_cast<std::int32_t>(r == 4 ? -1 : r * (s.vocabulary - 1) / (tokens - 1)));
      for (std::int64_t c = 0; c < s.vocabulary && r != 4; ++c)
        logits.set(r, c, 4 * values(r, c) * (r == 5 ? 2500 : 1) + (r == 6 ? 1e4 : r == 7 ? -1e4 : 0));
    }
  }
  base::View vt() { return base::View::of(targets.data(), {tokens}); }
  base::View vw() { return base::View::of(weights.data(), {tokens}); }
};

// dlogits and losses of one rank with all lanes.
std::vector<MatrixBuffer> whole(tensor::Exec& exec, DType t, Sizes s, std::int64_t lanes) {
  Problem p(t, s);
  MatrixBuffer d(t, tokens, s.stored, 1), losses(DType::f64, 1, tokens);
  kernels::cross_entropy_chunk(exec, {.logits = p.logits.view(),
                                      .targets = p.vt(),
                                      .weights = p.vw(),
                                      .vocabulary = s.vocabulary,
                                      .lanes = lanes,
                                      .losses = losses.view().reshaped({tokens}),
                                      .dlogits = d.view(),
                                      .softcap = s.softcap,
                                      .label_smoothing = s.smoothing});
  return {d, losses};
}

enum class Gradient { apart, in_place, none };

// The same from ranks with equal slices of columns, each with its own lanes. The losses have one row for each rank.
std::vector<MatrixBuffer> cut(tensor::Exec& exec, DType t, Sizes s, std::int64_t lanes, std::int64_t ranks,
                              Gradient gradient = Gradient::apart) {
  Problem p(t, s);
  const auto width = s.stored / ranks, own = lanes / ranks,
             pieces = std::has_single_bit(static_cast<std::uint64_t>(lanes)) ? std::int64_t{1} : own;
  MatrixBuffer d(t, tokens, s.stored, 1), losses(DType::f64, ranks, tokens),
      statistics(p.logits.dtype, ranks, pieces * s.numbers() * tokens);
  for (std::int64_t r = 0; r < ranks; ++r)
    kernels::cross_entropy_statistics(exec, {.logits = p.logits.view().columns(r * width, width),
                                             .targets = p.vt(),
                                             .weights = p.vw(),
                                             .first_column = r * width,
                                             .vocabulary = s.vocabulary,
                                             .lanes = own,
                                             .statistics = statistics.view().row_range(r, 1),
                                             .softcap = s.softcap,
                                             .label_smoothing = s.smoothing});
  for (std::int64_t r = 0; r < ranks; ++r) {
    const auto logits = p.logits.view().columns(r * width, width);
    kernels::cross_entropy_finish(exec,
                                  {.logits = logits,
                                   .targets = p.vt(),
                                   .weights = p.vw(),
                                   .statistics = statistics.view(),
                                   .first_column = r * width,
                                   .vocabulary = s.vocabulary,
                                   .losses = losses.view().row_range(r, 1).reshaped({tokens}),
                                   .dlogits = gradient == Gradient::none       ? base::View{}
                                              : gradient == Gradient::in_place ? logits
                                                                               : d.view().columns(r * width, width),
                                   .softcap = s.softcap,
                                   .label_smoothing = s.smoothing});
  }
  if (gradient == Gradient::in_place)
    for (std::int64_t r = 0; r < tokens; ++r)
      for (std::int64_t c = 0; c < s.stored; ++c) d.set(r, c, p.logits(r, c));
  return {d, losses};
}

void expect_losses(const MatrixBuffer& want, const MatrixBuffer& got, const std::string& what) {
  for (std::int64_t rank = 0; rank < got.rows; ++rank)
    for (std::int64_t r = 0; r < tokens; ++r)
      ASSERT_EQ(std::bit_cast<std::uint64_t>(got(rank, r)), std::bit_cast<std::uint64_t>(want(0, r)))
          << what << " rank " << rank << " token " << r;
}

// With any number of ranks that divides the lanes.
TEST(CrossEntropyCut, GivesTheBitsOfOneRank) {
  for (auto s : all_sizes)
    for (std::int64_t lanes : {1, 2, 4, 8, 16, 3, 6, 12}) {
      if (s.stored % lanes != 0) continue;
      sweep(
          [&](tensor::Exec& exec, DType t) {
            const auto want = whole(exec, t, s, lanes);
            for (std::int64_t ranks = 1; ranks <= lanes && exec.threads() < 3; ++ranks) {
              if (lanes % ranks != 0) continue;
              const auto what = fmt::format("{} of {}, {} lanes on {} ranks, {}", s.vocabulary, s.stored, lanes, ranks,
                                            base::name_of(t));
              const auto got = cut(exec, t, s, lanes, ranks);
              EXPECT_EQ(got[0].bytes, want[0].bytes) << what;
              expect_losses(want[1], got[1], what);
              expect_losses(want[1], cut(exec, t, s, lanes, ranks, Gradient::none)[1], what);
              if (base::is_narrow(t)) continue;
              const auto same = cut(exec, t, s, lanes, ranks, Gradient::in_place);
              EXPECT_EQ(same[0].bytes, want[0].bytes) << what << " in place";
              expect_losses(want[1], same[1], what);
            }
            return want;
          },
          [&](DType t, const std::vector<MatrixBuffer>& out) {
            const Problem p(t, s);
            const auto tanh_of = [&](std::int64_t r, std::int64_t c) { return std::tanh(p.logits(r, c) / s.softcap); };
            const auto logit = [&](std::int64_t r, std::int64_t c) {
              return s.softcap > 0 ? s.softcap * tanh_of(r, c) : p.logits(r, c);
            };
            for (std::int64_t r = 0; r < tokens; ++r) {
              if (r == 4) {
                ASSERT_EQ(out[1](0, r), 0);
                for (std::int64_t c = 0; c < s.stored; ++c) ASSERT_EQ(out[0](r, c), 0) << "masked";
                continue;
              }
              const auto target = p.targets[static_cast<std::size_t>(r)];
              double top = logit(r, 0), sum = 0, mean = 0, largest = 0;
              for (std::int64_t c = 0; c < s.vocabulary; ++c) top = std::max(top, logit(r, c));
              for (std::int64_t c = 0; c < s.vocabulary; ++c) sum += std::exp(logit(r, c) - top);
              for (std::int64_t c = 0; c < s.vocabulary; ++c) {
                mean += logit(r, c) / static_cast<double>(s.vocabulary);
                largest = std::max(largest, std::abs(logit(r, c)));
              }
              const double expected = (1 - s.smoothing) * logit(r, target) + s.smoothing * mean;
              ASSERT_TRUE(near(accumulation(t), out[1](0, r), std::log(sum) + (top - expected),
                               1 + s.softcap + s.smoothing * largest))
                  << "loss " << r;
              for (std::int64_t c = 0; c < s.stored; ++c) {
                if (c >= s.vocabulary) ASSERT_EQ(out[0](r, c), 0) << "padding";
                else
                  ASSERT_TRUE(near(t, out[0](r, c),
                                   (std::exp(logit(r, c) - top) / sum - (1 - s.smoothing) * (c == target) -
                                    s.smoothing / static_cast<double>(s.vocabulary)) *
                                       (s.softcap > 0 ? 1 - tanh_of(r, c) * tanh_of(r, c) : 1),
                                   1))
                      << r << "," << c;
              }
            }
          });
    }
}

// Compares what a rank sends to others with the definition.
void compare_statistics(const Sizes& s) {
  const auto numbers = s.numbers();
  for (std::int64_t rank = 0; rank < 4; ++rank)
    sweep(
        [&](tensor::Exec& exec, DType t) {
          Problem p(t, s);
          MatrixBuffer one(p.logits.dtype, numbers, tokens), each(p.logits.dtype, 3 * numbers, tokens);
          const auto slice = p.logits.view().columns(rank * 96, 96);
          kernels::cross_entropy_statistics(exec, {.logits = slice,
                                                   .targets = p.vt(),
                                                   .weights = p.vw(),
                                                   .first_column = rank * 96,
                                                   .vocabulary = s.vocabulary,
                                                   .lanes = 3,
                                                   .statistics = one.view(),
                                                   .label_smoothing = s.smoothing});
          kernels::cross_entropy_statistics(exec, {.logits = slice,
                                                   .targets = p.vt(),
                                                   .weights = p.vw(),
                                                   .first_column = rank * 96,
                                                   .vocabulary = s.vocabulary,
                                                   .lanes = 3,
                                                   .statistics = each.view(),
                                                   .label_smoothing = s.smoothing});
          return std::vector{one, each};
        },
        [&](DType t, const std::vector<MatrixBuffer>& out) {
          const Problem p(t, s);
          const auto check = [&](const MatrixBuffer& m, std::int64_t piece, std::int64_t first, std::int64_t end) {
            for (std::int64_t r = 0; r < tokens; ++r) {
              double top = -1e300, sum = 0, target = 0, all = 0, magnitude = 0;
              for (auto c = first; c < std::min(end, s.vocabulary) && r != 4; ++c) top = std::max(top, p.logits(r, c));
              for (auto c = first; c < std::min(end, s.vocabulary) && r != 4; ++c) {
                sum += std::exp(p.logits(r, c) - top);
                all += p.logits(r, c), magnitude += std::abs(p.logits(r, c));
                if (c == p.targets[static_cast<std::size_t>(r)]) target = p.logits(r, c);
              }
              ASSERT_EQ(m(numbers * piece, r), sum == 0 ? 0 : top) << rank << " token " << r;
              ASSERT_TRUE(near(m.dtype, m(numbers * piece + 1, r), sum, sum)) << rank << " token " << r;
              ASSERT_EQ(m(numbers * piece + 2, r), target) << rank << " token " << r;
              if (numbers == 3) continue;
              ASSERT_TRUE(near(m.dtype, m(numbers * piece + 3, r), all, magnitude)) << rank << " token " << r;
            }
          };
          check(out[0], 0, rank * 96, rank * 96 + 96);
          for (std::int64_t piece = 0; piece < 3; ++piece)
            check(out[1], piece, rank * 96 + piece * 32, rank * 96 + piece * 32 + 32);
        });
}
TEST(CrossEntropyCut, StatisticsAreThoseOfTheSlice) { compare_statistics({257, 384}); }
TEST(CrossEntropyCut, StatisticsForSmoothingHaveTheSumOfTheSlice) { compare_statistics({257, 384, 0, 0.1}); }

TEST(CrossEntropyCut, ANanLogitShowsInTheLossOfEveryRank) {
  for (std::int64_t place : {0, 63, 64, 100}) {
    Bench bench(1);
    Problem p(DType::f32, {101, 128});
    p.logits.set(2, place, std::nan(""));
    MatrixBuffer statistics(DType::f32, 2, 3 * tokens), losses(DType::f64, 1, tokens);
    for (std::int64_t r = 0; r < 2; ++r)
      kernels::cross_entropy_statistics(*bench, {.logits = p.logits.view().columns(r * 64, 64),
                                                 .targets = p.vt(),
                                                 .weights = p.vw(),
                                                 .first_column = r * 64,
                                                 .vocabulary = 101,
                                                 .lanes = 2,
                                                 .statistics = statistics.view().row_range(r, 1)});
    for (std::int64_t r = 0; r < 2; ++r) {
      kernels::cross_entropy_finish(*bench, {.logits = p.logits.view().columns(r * 64, 64),
                                             .targets = p.vt(),
                                             .weights = p.vw(),
                                             .statistics = statistics.view(),
                                             .first_column = r * 64,
                                             .vocabulary = 101,
                                             .losses = losses.view().reshaped({tokens})});
      EXPECT_TRUE(std::isnan(losses(0, 2))) << place;
      EXPECT_FALSE(std::isnan(losses(0, 3)));
    }
  }
}

TEST(CrossEntropyCut, EveryRankRefusesTargetsOutsideTheVocabulary) {
  for (std::int32_t bad : {-1, 101, 127})
    for (std::int64_t rank : {0, 1}) {
      Bench bench(1);
      Problem p(DType::f32, {101, 128});
      p.targets[2] = bad;
      MatrixBuffer statistics(DType::f32, 3, tokens);
      EXPECT_THROW(kernels::cross_entropy_statistics(*bench, {.logits = p.logits.view().columns(rank * 64, 64),
                                                              .targets = p.vt(),
                                                              .weights = p.vw(),
                                                              .first_column = rank * 64,
                                                              .vocabulary = 101,
                                                              .lanes = 1,
                                                              .statistics = statistics.view()}),
                   base::InputError)
          << bad;
    }
}

}  // namespace cross_entropy_cut_test
}  // namespace trainyard::test
