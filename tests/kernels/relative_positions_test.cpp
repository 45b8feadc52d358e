// Compares the bias of relative positions with its definition, distance by distance, and its gradient to the bit.
#include "kernels/relative_positions/relative_positions.h"
#include "libtrain/plan/spec/relative_buckets.h"
#include "tests/kernels/sweep.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace relative_positions_test {

using kernels::FoldInto;

struct Positions {
  plan::RelativeBucketRule rule;
  std::int64_t queries, keys;
  plan::RelativeBuckets buckets{rule};
  std::vector<std::int32_t> borders = buckets.borders();

  kernels::RelativePositions operands() {
    return {.borders = vector_view(borders, 1), .bidirectional = rule.bidirectional, .queries = queries, .keys = keys};
  }
  std::int64_t distances() const { return queries + keys - 1; }
  std::int64_t bucket(std::int64_t column) const { return buckets.of(column - (queries - 1)); }
};

std::vector<Positions> every_case() {
  std::vector<Positions> all;
  const std::pair<std::int64_t, std::int64_t> rules[] = {{32, 128}, {32, 18}, {6, 4}};
  for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 17}, {17, 1}, {130, 130}, {63, 400}, {400, 63}})
    for (const bool bidirectional : {true, false}) {
      const auto& [buckets, maximum] = rules[all.size() / 3 % 3];
      all.push_back({{buckets, maximum, bidirectional}, queries, keys});
    }
  all.push_back({{32, 128, true}, 400, 300}), all.push_back({{32, 128, false}, 400, 300});
  return all;
}

TEST(RelativePositions, EveryDistanceHasItsBucket) {
  for (auto& p : every_case())
    sweep(
        [&](tensor::Exec& exec, DType t) {
          MatrixBuffer table(t, p.rule.buckets, 3, 5), bias(accumulation(t), 3, p.distances(), 2);
          table.fill(1);
          kernels::relative_positions_expand(exec, p.operands(), table.view(), bias.view());
          return std::vector{bias, table};
        },
        [&](DType, const std::vector<MatrixBuffer>& out) {
          for (std::int64_t h = 0; h < 3; ++h)
            for (std::int64_t c = 0; c < p.distances(); ++c)
              ASSERT_EQ(out[0](h, c), out[1](p.bucket(c), h)) << p.queries << " x " << p.keys << ": " << h << "," << c;
        });
}

// The sum of each bucket, in the type of sums and in ascending distance.
template <class G> void folds(Positions& p, DType g, FoldInto into) {
  std::vector<std::vector<char>> bits;
  for (int threads = 1; threads <= 4; ++threads) {
    Bench bench(threads);
    MatrixBuffer d_bias(g, 3, p.distances(), 2), d_table(g, p.rule.buckets, 3, 5);
    d_bias.fill(3), d_table.fill(4);
    const auto before = d_table;
    for (std::int64_t h = 0; h < 3; ++h)
      for (std::int64_t c = 0; c < p.distances(); ++c) d_bias.set(h, c, std::ldexp(d_bias(h, c), c * 7 % 15));
    kernels::relative_positions_fold(*bench, p.operands(), d_bias.view(), d_table.view(), into);
    ASSERT_TRUE(d_table.gap_untouched());
    bits.push_back(d_table.bytes);
    ASSERT_EQ(bits.back(), bits.front()) << threads << " threads";
    if (threads > 1) continue;
    for (std::int64_t h = 0; h < 3; ++h) {
      std::vector<G> sums(static_cast<std::size_t>(p.rule.buckets), 0);
      for (std::int64_t c = 0; c < p.distances(); ++c)
        sums[static_cast<std::size_t>(p.bucket(c))] += static_cast<G>(d_bias(h, c));
      for (std::int64_t b = 0; b < p.rule.buckets; ++b) {
        const G sum = sums[static_cast<std::size_t>(b)];
        ASSERT_EQ(d_table(b, h), into == FoldInto::add ? static_cast<G>(before(b, h)) + sum : sum) << b << "," << h;
      }
    }
  }
}

TEST(RelativePositions, BucketsAddUpTheirDistancesInOrder) {
  on_every_path([] {
    for (auto& p : every_case())
      for (const auto into : {FoldInto::overwrite, FoldInto::add}) {
        folds<float>(p, DType::f32, into), folds<double>(p, DType::f64, into);
        if (::testing::Test::HasFatalFailure()) return;
      }
  });
}

// The two are adjoint: sum(expand(table) * d_bias) = sum(table * fold(d_bias)).
TEST(RelativePositions, FoldIsTheGradientOfExpand) {
  for (auto& p : every_case()) {
    Bench bench(2);
    MatrixBuffer table(DType::f64, p.rule.buckets, 2), bias(DType::f64, 2, p.distances()), d_bias(bias), d_table(table);
    table.fill(1), d_bias.fill(2);
    kernels::relative_positions_expand(*bench, p.operands(), table.view(), bias.view());
    kernels::relative_positions_fold(*bench, p.operands(), d_bias.view(), d_table.view(), FoldInto::overwrite);
    double forward = 0, backward = 0;
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t c = 0; c < p.distances(); ++c) forward += bias(h, c) * d_bias(h, c);
      for (std::int64_t b = 0; b < p.rule.buckets; ++b) backward += table(b, h) * d_table(b, h);
    }
    EXPECT_NEAR(forward, backward, 1e-12 * static_cast<double>(p.distances()));
    EXPECT_EQ(bench.arena.peak_bytes(), 0);
  }
}

TEST(RelativePositions, RefusesOtherShapes) {
  Positions p{{8, 20, true}, 5, 7};
  Bench bench(1);
  const auto refusal = [&](std::int64_t buckets, std::int64_t distances) -> std::string {
    MatrixBuffer table(DType::f32, buckets, 2), bias(DType::f32, 2, distances);
    try {
      kernels::relative_positions_expand(*bench, p.operands(), table.fill(1).view(), bias.view());
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(8, 11), "");
  EXPECT_NE(refusal(4, 11).find("the table: expected 8 x 2, found 4 x 2"), std::string::npos) << refusal(4, 11);
  EXPECT_NE(refusal(8, 12).find("the bias: expected 2 x 11, found 2 x 12"), std::string::npos) << refusal(8, 12);
}

}  // namespace relative_positions_test
}  // namespace trainyard::test
