// Tests products in lanes: the exact bits of the order that the header promises, also for ranks that divide the lanes.
#include "kernels/lane_sum/lane_sum.h"
#include "kernels/linear/linear.h"
#include "tests/kernels/lane_order.h"

#include <gtest/gtest.h>

#include <cstring>

namespace trainyard::test {
namespace linear_lanes_test {

using kernels::LinearPart;

struct Case {
  DType in, out;
};
const Case cases[] = {{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16},
                      {DType::f64, DType::f64}, {DType::f16, DType::f32},  {DType::f16, DType::f16}};

// A product over `widths` (one for each part) with its operands, as forward (one part) or as input gradient.
struct Product {
  Case type;
  std::int64_t m, n;
  std::vector<std::int64_t> widths;
  bool forward;
  MatrixBuffer x;  // [m, all widths and gaps]
  std::vector<MatrixBuffer> weights;
  MatrixBuffer bias;

  Product(Case t, std::int64_t rows, std::int64_t cols, std::vector<std::int64_t> w, bool is_forward)
      : type(t), m(rows), n(cols), widths(std::move(w)), forward(is_forward), x(t.in, rows, total() + 5, 3),
        bias(t.in, 1, cols) {
    x.fill(1), bias.fill(9);
    for (std::size_t p = 0; p < widths.size(); ++p) {
      weights.emplace_back(t.in, forward ? n : widths[p], forward ? widths[p] : n, 2 + static_cast<int>(p));
      weights.back().fill(2 + p);
    }
  }
  std::int64_t total() const {
    std::int64_t k = 0;
    for (auto w : widths) k += w;
    return k;
  }
  bool has_bias() const { return forward && type.in == type.out; }
  // What rank r of t has: its neighbouring lanes of each part.
  std::vector<LinearPart> parts(std::int64_t r = 0, std::int64_t t = 1) {
    std::vector<LinearPart> out;
    std::int64_t at = 2;
    for (std::size_t p = 0; p < widths.size(); ++p) {
      const auto k = widths[p] / t;
      const auto w = weights[p].view();
      out.push_back({x.view().columns(at + r * k, k), forward ? w.columns(r * k, k) : w.row_range(r * k, k)});
      at += widths[p];
    }
    return out;
  }
  void run(tensor::Exec& exec, std::int64_t lanes, base::View to, std::int64_t r = 0, std::int64_t t = 1) {
    const auto all = parts(r, t);
    if (forward)
      kernels::linear_forward_lanes(exec, all[0].dy, all[0].weight, has_bias() && t == 1 ? bias.view() : base::View{},
                                    lanes, to);
    else kernels::linear_backward_input_lanes(exec, all, lanes, to);
  }
  std::vector<Factors> factors(std::int64_t i, std::int64_t j) const {
    std::vector<Factors> out;
    std::int64_t at = 2;
    for (std::size_t p = 0; p < widths.size(); ++p) {
      out.emplace_back();
      for (std::int64_t k = 0; k < widths[p]; ++k) {
        out.back().left.push_back(x(i, at + k));
        out.back().right.push_back(forward ? weights[p](j, k) : weights[p](k, j));
      }
      at += widths[p];
    }
    return out;
  }
  std::int64_t scratch(std::int64_t lanes) const {
    return plan::lane_gemm_scratch_bytes(m, n, total(), static_cast<std::int64_t>(widths.size()), lanes,
                                         base::is_narrow(type.out));
  }
};

// Runs with scratch of exactly the formula's size, and a canary behind it.
MatrixBuffer run_with_canary(Product& p, std::int64_t lanes, int threads) {
  constexpr std::int64_t behind = 8192;
  const auto bytes = p.scratch(lanes);
  Bench bench(threads, bytes + behind);
  auto* memory = static_cast<char*>(bench.arena.allocate_bytes(bytes + behind));
  std::memset(memory, 0x7f, static_cast<std::size_t>(bytes + behind));
  bench.arena.release(0);
  MatrixBuffer y(p.type.out, p.m, p.n, 3);
  {
    tensor::ArenaScope all_but(bench.arena);
    p.run(*bench, lanes, y.view());
  }
  EXPECT_TRUE(y.gap_untouched());
  for (std::int64_t i = bytes; i < bytes + behind; ++i) EXPECT_EQ(memory[i], 0x7f) << "behind the scratch";
  Bench exact(threads, 64 << 20);
  p.run(*exact, lanes, y.view());
  EXPECT_EQ(exact.arena.peak_bytes(), bytes);
  return y;
}

void check(Product p, std::int64_t lanes) {
  const auto sums_in = accumulation(p.type.in);
  const auto what = ::testing::Message() << p.m << "x" << p.n << " over " << p.widths.size() << " parts, "
                                         << p.widths[0] << " in the first, " << lanes << " lanes, "
                                         << base::name_of(p.type.in) << " into " << base::name_of(p.type.out);
  const auto y = run_with_canary(p, lanes, 1);
  for (int threads : {2, 3}) ASSERT_EQ(run_with_canary(p, lanes, threads).bytes, y.bytes) << what << threads;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const auto factors = p.factors(i, j);
      double sum = p.has_bias() ? p.bias(0, j) : 0, size = std::abs(sum);
      for (const auto& f : factors)
        for (std::size_t k = 0; k < f.left.size(); ++k)
          sum += f.left[k] * f.right[k], size += std::abs(f.left[k] * f.right[k]);
      const double bound = rounding(sums_in) * size + of_store(p.type.out, sum);
      ASSERT_LE(std::abs(y(i, j) - sum), bound) << what << " at " << i << "," << j;
      const auto lane = lane_sums(p.type.in, factors, lanes);
      double exact = add_lanes(sums_in, lane, order_of(lane.size()));
      if (p.has_bias()) exact = rounded(sums_in, exact + p.bias(0, j));
      MatrixBuffer want(p.type.out, 1, 1);
      want.set(0, 0, exact);
      ASSERT_EQ(y(i, j), want(0, 0)) << what << " at " << i << "," << j;
    }
}

// Lanes of one block and of several, few and many lanes in a packed chunk, no power of two; odd rows and columns.
TEST(LinearLanes, ForwardHasTheBitsOfTheOrder) {
  const std::int64_t over[][2] = {{1, 21},  {1, 800}, {2, 64},   {4, 768}, {4, 1604},
                                  {8, 776}, {32, 96}, {3, 1200}, {6, 90}};
  on_every_path([&] {
    for (const auto& t : cases)
      for (const auto& o : over) check(Product(t, 33, 45, {o[1]}, true), o[0]);
  });
}

// Three parts of unequal width, as grouped queries have them.
TEST(LinearLanes, InputGradientHasTheBitsOfTheOrder) {
  on_every_path([] {
    for (const auto& t : cases) {
      check(Product(t, 33, 45, {48, 16, 16}, false), 4);
      check(Product(t, 17, 37, {1600, 800, 400}, false), 4);
      check(Product(t, 17, 37, {400, 392}, false), 8);
      check(Product(t, 17, 37, {400, 392}, false), 1);
      check(Product(t, 17, 37, {30, 402, 9}, false), 3);
      check(Product(t, 17, 37, {1000}, false), 2);
    }
  });
}

// More than one block of rows and of columns.
TEST(LinearLanes, SeveralBlocksOfTheResult) {
  on_every_path([] {
    for (const Case t : {Case{DType::f32, DType::f32}, Case{DType::bf16, DType::bf16}, Case{DType::f16, DType::f16}}) {
      check(Product(t, 2, 2051, {812}, true), 2);
      check(Product(t, 2020, 3, {48, 16, 32}, false), 4);
    }
  });
}

TEST(LinearLanes, OneLaneIsTheProductWithoutLanes) {
  on_every_path([] {
    for (const auto& t : cases)
      for (bool forward : {true, false}) {
        if (forward && t.in != t.out) continue;
        Product p(t, 67, 45, {900}, forward);
        MatrixBuffer lanes(t.out, p.m, p.n, 1), plain(t.out, p.m, p.n, 1);
        Bench bench(2);
        p.run(*bench, 1, lanes.view());
        const auto all = p.parts();
        if (forward) kernels::linear_forward(*bench, all[0].dy, all[0].weight, p.bias.view(), plain.view());
        else kernels::linear_backward_input(*bench, all[0].dy, all[0].weight, plain.view());
        ASSERT_EQ(lanes.bytes, plain.bytes);
      }
  });
}

// The results of ranks with neighbouring lanes, added by lane_sum, equal the result of one rank with all lanes.
TEST(LinearLanes, RanksThatShareTheLanesHaveTheSameBits) {
  on_every_path([] {
    for (auto t : {DType::f32, DType::bf16, DType::f64, DType::f16})
      for (bool forward : {true, false})
        for (std::int64_t lanes : {4, 8}) {
          Product p({t, t}, 67, 45,
                    forward ? std::vector<std::int64_t>{1616} : std::vector<std::int64_t>{816, 400, 400}, forward);
          MatrixBuffer whole(t, p.m, p.n);
          Bench bench(2);
          p.run(*bench, lanes, whole.view());
          for (std::int64_t ranks : {2, 4}) {
            MatrixBuffer pieces(accumulation(t), ranks * p.m, p.n), sum(t, p.m, p.n);
            for (std::int64_t r = 0; r < ranks; ++r)
              p.run(*bench, lanes / ranks, pieces.view().row_range(r * p.m, p.m), r, ranks);
            kernels::lane_sum(*bench, pieces.view().reshaped({ranks, p.m * p.n}),
                              forward ? p.bias.view() : base::View{}, 0, sum.view());
            ASSERT_EQ(sum.bytes, whole.bytes) << base::name_of(t) << ", " << ranks << " ranks";
          }
        }
  });
}

TEST(LinearLanes, TheseValuesTellOrdersApart) {
  Product p({DType::f32, DType::f32}, 33, 45, {768}, true);
  int different = 0;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const auto lane = lane_sums(DType::f32, p.factors(i, j), 4);
      different += add_lanes(DType::f32, lane, LaneOrder::tree) != add_lanes(DType::f32, lane, LaneOrder::left_fold);
    }
  EXPECT_GT(different, 100);
}

TEST(LinearLanes, RefusesWhatDoesNotDivide) {
  Bench bench(1);
  MatrixBuffer x(DType::f32, 4, 10), w(DType::f32, 6, 10), y(DType::f32, 4, 6);
  EXPECT_ANY_THROW(kernels::linear_forward_lanes(*bench, x.view(), w.view(), {}, 4, y.view()));
  const std::vector<LinearPart> four(4, LinearPart{y.view(), w.view()});
  EXPECT_ANY_THROW(kernels::linear_backward_input_lanes(*bench, four, 1, x.view()));
}

}  // namespace linear_lanes_test
}  // namespace trainyard::test
