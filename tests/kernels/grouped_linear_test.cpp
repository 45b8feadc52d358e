// Tests products of groups: the bits of kernels/linear group by group, nothing else written, scratch as planned.
#include "kernels/grouped_linear/grouped_linear.h"

#include "kernels/linear/linear.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/grouped_setup.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <cstring>

namespace trainyard::test {
namespace grouped_linear_test {

struct GroupedTypes {
  DType in, out;
};
const GroupedTypes grouped_types[] = {{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16},
                                      {DType::f64, DType::f64}, {DType::f16, DType::f32},  {DType::f16, DType::f16}};

// Runs body(exec) with scratch of exactly `bytes`, and a canary behind it.
template <class Body> void with_exact_scratch(int threads, std::int64_t bytes, const Body& body) {
  constexpr std::int64_t behind = 8192;
  tensor::Arena whole(tensor::Category::workspace, bytes + behind), scratch(whole, bytes);
  const auto* canary = static_cast<char*>(std::memset(whole.allocate_bytes(behind), 0x7f, behind));
  const auto exec = tensor::Exec::caller(&scratch, threads);
  body(*exec);
  for (std::int64_t i = 0; i < behind; ++i) ASSERT_EQ(canary[i], 0x7f) << "behind the scratch";
}

struct GroupedCase {
  std::vector<int> sizes;
  std::int64_t out;
  std::vector<std::int64_t> in;  // the summed widths: one, or two for an input gradient
  std::int64_t lanes;
  std::int64_t weights_of_a_row = 100;  // GroupedView::count
};
std::ostream& operator<<(std::ostream& s, const GroupedCase& c) {
  s << c.sizes.size() << " groups, " << c.in[0] << " to " << c.out << ", " << c.in.size() << " parts, " << c.lanes
    << " lanes, groups of";
  for (auto n : c.sizes) s << " " << n;
  return s;
}

enum class Direction { forward, backward };
void check_product(const GroupedCase& c, GroupedTypes t, Direction direction) {
  const bool with_bias = t.in == t.out;
  const Groups groups(c.sizes, static_cast<unsigned>(c.out));
  const auto g = groups.count();
  const auto total = std::accumulate(c.in.begin(), c.in.end(), std::int64_t{0});
  MatrixBuffer x(t.in, groups.rows, total + 7, 2);
  groups.fill(x, 1);
  std::vector<Stack> weights;
  for (std::size_t p = 0; p < c.in.size(); ++p) {
    weights.emplace_back(t.in, g, direction == Direction::forward ? c.out : c.in[p],
                         direction == Direction::forward ? c.in[p] : c.out, c.weights_of_a_row, 2 + p);
    weights.back().fill(2 + p, g);
  }
  Stack bias(t.out, g, 1, c.out, c.weights_of_a_row, 1);
  bias.fill(9, g);
  std::vector<base::View> a;
  for (std::int64_t at = 3; auto width : c.in) a.push_back(x.view().columns(at, width)), at += width;
  const auto ranges = base::View::of(groups.ranges.data(), {g, 2});

  MatrixBuffer want(t.out, groups.rows, c.out, 3);
  {
    Bench bench(2);
    for (std::int64_t e = 0; e < g; ++e) {
      const auto rows = [&](base::View v) { return v.row_range(groups.first(e), groups.size(e)); };
      if (groups.size(e) <= 0) continue;
      if (direction == Direction::forward) {
        kernels::linear_forward_lanes(*bench, rows(a[0]), weights[0].of(e),
                                      with_bias ? bias.of(e).reshaped({c.out}) : base::View{}, c.lanes,
                                      rows(want.view()));
      } else {
        std::vector<kernels::LinearPart> parts;
        for (std::size_t p = 0; p < c.in.size(); ++p) parts.push_back({rows(a[p]), weights[p].of(e)});
        kernels::linear_backward_input_lanes(*bench, parts, c.lanes, rows(want.view()));
      }
    }
  }
  const auto bytes_of = [&](int threads) {
    return plan::grouped_linear_scratch_bytes({.rows = groups.rows,
                                               .groups = g,
                                               .n = c.out,
                                               .k = total,
                                               .parts = static_cast<std::int64_t>(c.in.size()),
                                               .lanes = c.lanes,
                                               .narrow_result = base::is_narrow(t.out)},
                                              threads);
  };
  for (int threads : {1, 2, 3})
    with_exact_scratch(threads, bytes_of(threads), [&](tensor::Exec& exec) {
      MatrixBuffer y(t.out, groups.rows, c.out, 3);
      if (direction == Direction::forward) {
        kernels::grouped_linear_forward(exec, {.groups = {ranges},
                                               .x = a[0],
                                               .weight = weights[0].all(),
                                               .bias = with_bias ? bias.all() : kernels::GroupedView{},
                                               .lanes = c.lanes,
                                               .y = y.view()});
      } else {
        std::vector<kernels::GroupedPart> parts;
        for (std::size_t p = 0; p < c.in.size(); ++p) parts.push_back({a[p], weights[p].all()});
        kernels::grouped_linear_backward_input(exec, {ranges}, parts, c.lanes, y.view());
      }
      // Gaps and rows outside of groups are unchanged in both.
      ASSERT_TRUE(y.bytes == want.bytes) << c << ", " << base::name_of(t.in) << " to " << base::name_of(t.out) << ", "
                                         << threads << " threads";
    });
}

std::vector<int> random_sizes(int groups, int most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> sizes;
  for (int i = 0; i < groups; ++i) sizes.push_back(random() % 4 == 0 ? 0 : 1 + static_cast<int>(random() % most));
  return sizes;
}

// By day every path has each type and each case, and half of their pairs.
template <std::size_t n> void check_products(const GroupedCase (&cases)[n], Direction direction) {
  on_every_path([&] {
    for (std::size_t t = 0; t < std::size(grouped_types); ++t)
      for (std::size_t c = 0; c < n; ++c)
        if (trainyard::testing::at_night() || (t + c) % 2 == 0) check_product(cases[c], grouped_types[t], direction);
  });
}

TEST(GroupedLinear, ForwardHasTheBitsOfEachGroup) {
  const GroupedCase cases[] = {{random_sizes(12, 50, 1), 70, {96}, 1, 5},
                               {random_sizes(12, 50, 2), 33, {96}, 2},
                               {random_sizes(7, 90, 3), 45, {804}, 4, 2},
                               {random_sizes(7, 90, 4), 131, {804}, 3},
                               {{0, 5, 0, 120, 0}, 36, {1605}, 1},
                               {{3, 9, 1}, 2090, {400}, 2},
                               {{3, 9, 1}, 2090, {397}, 1, 1},
                               {random_sizes(64, 6, 5), 24, {776}, 8, 7},
                               {{60, 1, 2100, 0, 2500, 17}, 36, {44}, 4, 2},
                               {{-1, 5, -1, 0, 40, -1}, 36, {44}, 2, 2}};
  check_products(cases, Direction::forward);
}

TEST(GroupedLinear, InputGradientHasTheBitsOfEachGroup) {
  const GroupedCase cases[] = {
      {random_sizes(12, 50, 1), 70, {96}, 1, 5},      {random_sizes(12, 50, 2), 33, {96, 48}, 2},
      {random_sizes(7, 90, 3), 45, {804, 400}, 4, 2}, {random_sizes(7, 90, 4), 131, {402, 30}, 3},
      {{0, 5, 0, 120, 0}, 36, {400, 392}, 1},         {{3, 9, 1}, 2090, {200, 392}, 2},
      {random_sizes(64, 6, 5), 24, {400, 392}, 8, 7}, {{60, 1, 2100, 0, 2500, 17}, 36, {44, 20}, 1, 2},
      {{-1, 5, -1, 0, 40, -1}, 36, {44, 20}, 2, 2}};
  check_products(cases, Direction::backward);
}

void check_weight(const GroupedCase& c, DType t) {
  const bool with_bias = c.weights_of_a_row != 1;
  const Groups groups(c.sizes, static_cast<unsigned>(c.out));
  const auto g = groups.count(), in = c.in[0];
  const auto wide = accumulation(t);
  MatrixBuffer x(t, groups.rows, in, 2), dy(t, groups.rows, c.out + 7, 3);
  groups.fill(x, 1), groups.fill(dy, 2);
  const auto dys = dy.view().columns(4, c.out);
  const auto ranges = base::View::of(groups.ranges.data(), {g, 2});
  const auto stack = [&] { return Stack(wide, g, c.out, in, g, 2); };
  const auto biases = [&] { return Stack(wide, g, 1, c.out, g, 1); };
  auto want = stack(), want_bias = biases();
  Bench bench(2);
  for (std::int64_t e = 0; e < g; ++e) {
    const auto rows = [&](base::View v) { return v.row_range(groups.first(e), groups.size(e)); };
    const auto db = want_bias.of(e).reshaped({c.out});
    if (groups.size(e) > 0) {
      kernels::linear_backward_weight(*bench, rows(dys), rows(x.view()), want.of(e), with_bias ? db : base::View{});
      continue;
    }
    if (groups.size(e) < 0) continue;  // belongs to another call
    for (std::int64_t i = 0; i < c.out; ++i) {
      for (std::int64_t j = 0; j < in; ++j) want.memory.set(0, want.at(e, i, j), 0);
      if (with_bias) want_bias.memory.set(0, want_bias.at(e, 0, i), 0);
    }
  }
  for (int threads : {1, 2, 3})
    with_exact_scratch(threads, plan::grouped_linear_weight_scratch_bytes(groups.rows, c.out, in, threads),
                       [&](tensor::Exec& exec) {
                         auto dw = stack(), db = biases();
                         kernels::grouped_linear_backward_weight(exec, {ranges}, dys, x.view(), dw.all(),
                                                                 with_bias ? db.all() : kernels::GroupedView{});
                         ASSERT_TRUE(dw.memory.bytes == want.memory.bytes)
                             << c << ", " << base::name_of(t) << ", " << threads << " threads";
                         ASSERT_TRUE(db.memory.bytes == want_bias.memory.bytes)
                             << "bias, " << c << ", " << base::name_of(t) << ", " << threads << " threads";
                       });
}

TEST(GroupedLinear, WeightGradientHasTheBitsOfEachGroup) {
  const GroupedCase cases[] = {{random_sizes(12, 50, 1), 70, {96}, 1, 5},
                               {random_sizes(7, 150, 2), 33, {131}, 1},
                               {{0, 400, 1, 0, 64, 900, 65, 128, 0}, 45, {36}, 1, 2},
                               {{7, 383, 384, 385}, 70, {70}, 1, 3},
                               {{0, 9, 100, 300}, 2090, {33}, 1},
                               {{20, 0, 3}, 40, {2090}, 1, 1},
                               {random_sizes(64, 6, 5), 24, {40}, 1, 7},
                               {random_sizes(130, 3, 6), 24, {40}, 1},
                               {{0, 0, 0}, 9, {5}, 1},
                               {{-1, 5, -1, -1, 0, 440, -1}, 70, {96}, 1, 3},
                               {{5, -1}, 70, {96}, 1, 1},
                               {{-1, -1}, 9, {5}, 1}};
  on_every_path([&] {
    for (auto t : {DType::f32, DType::bf16, DType::f64, DType::f16})
      for (const auto& c : cases) check_weight(c, t);
  });
}

// Compares with sums in double precision, so that the same mistake in both products is found.
TEST(GroupedLinear, IsTheProductOfEachGroup) {
  const Groups groups({7, 0, 130, 1, 33});
  const std::int64_t in = 450, out = 37, g = groups.count();
  MatrixBuffer x(DType::f32, groups.rows, in), dy(DType::f32, groups.rows, out);
  groups.fill(x, 1), groups.fill(dy, 2);
  Stack w(DType::f32, g, out, in, 2, 3), b(DType::f32, g, 1, out, 2, 1), dw(DType::f32, g, out, in, g, 3),
      db(DType::f32, g, 1, out, g, 1);
  w.fill(3, g), b.fill(4, g);
  auto ranges = groups.ranges;
  const kernels::RowGroups rows{base::View::of(ranges.data(), {g, 2})};
  MatrixBuffer y(DType::f32, groups.rows, out), dx(DType::f32, groups.rows, in);
  Bench bench(2);
  kernels::grouped_linear_forward(
      *bench, {.groups = rows, .x = x.view(), .weight = w.all(), .bias = b.all(), .lanes = 2, .y = y.view()});
  const kernels::GroupedPart part{dy.view(), w.all()};
  kernels::grouped_linear_backward_input(*bench, rows, {&part, 1}, 1, dx.view());
  kernels::grouped_linear_backward_weight(*bench, rows, dy.view(), x.view(), dw.all(), db.all());
  for (std::int64_t e = 0; e < g; ++e) {
    const auto begin = groups.first(e), end = begin + groups.size(e);
    for (std::int64_t o = 0; o < out; ++o) {
      double column = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        double sum = b(e, 0, o);
        for (std::int64_t k = 0; k < in; ++k) sum += x(i, k) * w(e, o, k);
        ASSERT_NEAR(y(i, o), sum, 1e-4);
        column += dy(i, o);
      }
      ASSERT_NEAR(db(e, 0, o), column, 1e-4);
      for (std::int64_t j = 0; j < in; ++j) {
        double sum = 0;
        for (std::int64_t i = begin; i < end; ++i) sum += dy(i, o) * x(i, j);
        ASSERT_NEAR(dw(e, o, j), sum, 1e-4);
      }
    }
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < in; ++j) {
        double sum = 0;
        for (std::int64_t o = 0; o < out; ++o) sum += dy(i, o) * w(e, o, j);
        ASSERT_NEAR(dx(i, j), sum, 1e-4);
      }
  }
}

// A group's rows are read only when a worker begins the work.
TEST(GroupedLinear, RangesAreReadWhenTheWorkIsDone) {
  MatrixBuffer x(DType::f32, 4, 8), w(DType::f32, 6, 8), y(DType::f32, 4, 6);
  x.fill(1), w.fill(2);
  std::vector<std::int32_t> ranges{0, 0};
  tensor::Arena arena(tensor::Category::workspace, 1 << 20);
  auto worker = tensor::Exec::worker("test", &arena);
  worker->run([&] { ranges[0] = 1, ranges[1] = 2; });
  kernels::grouped_linear_forward(*worker, {.groups = {base::View::of(ranges.data(), {1, 2})},
                                            .x = x.view(),
                                            .weight = {w.view()},
                                            .lanes = 1,
                                            .y = y.view()});
  worker->synchronize();
  for (std::int64_t i = 0; i < 4; ++i) ASSERT_EQ(std::isnan(y(i, 0)), i < 1 || i > 2);
}

}  // namespace grouped_linear_test
}  // namespace trainyard::test
