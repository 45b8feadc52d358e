// Tests the clock of a thread's kernels: which calls it counts, under which name and shape, with which work. Measuring
// changes no result.
#include "kernels/kernel_clock.h"

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/grouped_linear/grouped_linear.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/grouped_setup.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace trainyard {
namespace kernel_clock_test {

using base::DType;
using base::View;

constexpr int threads = 2;

// Operands and memory for the calls of the tests.
struct Kitchen {
  tensor::Arena rows{tensor::Category::activations, 16 << 20}, scratch{tensor::Category::workspace, 16 << 20};
  std::unique_ptr<tensor::Exec> exec = tensor::Exec::caller(&scratch, threads);
  View matrix(std::int64_t r, std::int64_t c) {
    const auto v = rows.allocate(DType::f32, {r, c});
    for (std::int64_t i = 0; i < r * c; ++i) v.ptr<float>()[i] = static_cast<float>(i % 13) * 0.25f - 1;
    return v;
  }
  void product(std::int64_t m, std::int64_t n, std::int64_t k) {
    kernels::gemm(*exec, {.a = matrix(m, k),
                          .b = matrix(k, n),
                          .trans_a = kernels::Transpose::no,
                          .trans_b = kernels::Transpose::no,
                          .c = matrix(m, n)});
  }
};

TEST(KernelClock, CountsCallsOfEachKernelAndOfProductsEachShape) {
  Kitchen at;
  kernels::KernelClock clock(threads);
  at.product(8, 16, 24);  // nobody measures
  {
    const kernels::KernelClock::Measuring measuring(clock);
    at.product(8, 16, 24);
    at.product(40, 16, 24);
    at.product(8, 16, 24);
    const auto x = at.matrix(4, 8), y = at.matrix(4, 8);
    kernels::activation_forward(*at.exec, kernels::Activation::gelu_tanh, x, y);
    std::thread([&] {
      Kitchen other;
      other.product(8, 16, 24);
    }).join();
  }
  at.product(8, 16, 24);
  const auto rows = clock.rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].kernel, std::string("gemm_cpu"));
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_EQ(rows[0].work.operations, 2 * 2 * 8 * 16 * 24);
  EXPECT_EQ((std::vector{rows[0].work.m, rows[0].work.n, rows[0].work.k}), (std::vector<std::int64_t>{8, 16, 24}));
  EXPECT_EQ(rows[1].calls, 1);
  EXPECT_EQ(rows[1].work.m, 40);
  EXPECT_EQ(rows[2].kernel, std::string("activation_cpu"));
  EXPECT_EQ(rows[2].work.m, 0);
  EXPECT_EQ(rows[2].team, 0);
  for (const auto& r : rows.first(2)) {
    EXPECT_GT(r.packing, 0);
    EXPECT_GT(r.computing, 0);
    EXPECT_DOUBLE_EQ(r.team, r.seconds * threads);
    EXPECT_LE(r.packing + r.computing, r.team);
  }
  clock.clear();
  EXPECT_TRUE(clock.rows().empty());
}

TEST(KernelClock, CallsThatFindNoRoomAreCountedTogether) {
  Kitchen at;
  kernels::KernelClock clock(threads);
  {
    const kernels::KernelClock::Measuring measuring(clock);
    for (int m = 1; m <= 300; ++m) at.product(m, 1, 1);
    at.product(7, 1, 1);  // has a row already
  }
  const auto rows = clock.rows();
  std::int64_t calls = 0;
  for (const auto& r : rows) calls += r.calls;
  EXPECT_EQ(calls, 301);
  EXPECT_EQ(rows[6].calls, 2);
  EXPECT_EQ(rows.back().kernel, nullptr);
  EXPECT_EQ(rows.back().calls, 301 - 1 - static_cast<std::int64_t>(rows.size() - 1));
}

// A team that is larger than the clock's is measured as a whole.
TEST(KernelClock, TellsNothingOfTeamsThatItHasNoRoomFor) {
  Kitchen at;
  kernels::KernelClock clock(1);
  const kernels::KernelClock::Measuring measuring(clock);
  at.product(64, 64, 64);
  ASSERT_EQ(clock.rows().size(), 1u);
  EXPECT_EQ(clock.rows()[0].team, 0);
}

// Counts pairs one by one: of a causal square, of a full one, and of lists by their parts of 16 x 16; then the same of
// those that are within a window.
TEST(KernelClock, CountsTheWorkOfAttention) {
  constexpr std::int64_t batch = 2, T = 130, heads = 3, d = 16;
  test::AttentionCase c;
  c.T = T, c.list_heads = heads;
  const test::AttentionParts parts(c);
  const test::AttentionLists lists(parts);
  double listed = 0;
  for (const char there : parts.there) listed += there != 0 ? 256 : 0;
  const double causal = heads * T * (T + 1) / 2.0, full = heads * T * T;
  constexpr std::int64_t window = 20;
  double causal_near = 0, full_near = 0, listed_near = 0;
  for (std::int64_t i = 0; i < T; ++i)
    for (std::int64_t j = 0; j < T; ++j)
      if (std::abs(i - j) < window) full_near += heads, causal_near += j <= i ? heads : 0;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t r = 0; r < parts.n; ++r)
      for (std::int64_t s = 0; s < parts.n; ++s)  // parts two apart are 17 places apart where they are nearest
        if (parts.has(h, r, s) && std::abs(r - s) <= 2) listed_near += 256;
  struct {
    bool causal, lists;
    double pairs;
    std::int64_t window = 0;
  } const cases[] = {{true, false, causal},
                     {false, false, full},
                     {false, true, listed},
                     {true, false, causal_near, window},
                     {false, false, full_near, window},
                     {false, true, listed_near, window},
                     {true, false, causal, T}};
  for (const auto& k : cases) {
    Kitchen at;
    kernels::AttentionShape s{batch, T, heads, heads, d, 0.25};
    s.visibility.causal = k.causal, s.visibility.window = k.window;
    if (k.lists) {
      s.visibility.by_queries = lists.by_queries.view(lists.tiles, lists.heads);
      s.visibility.by_keys = lists.by_keys.view(lists.tiles, lists.heads);
    }
    const auto x = [&] { return at.matrix(batch * T, heads * d); };
    const auto start = at.rows.allocate(DType::i32, {1, batch * T});
    std::fill_n(start.ptr<std::int32_t>(), batch * T, 0);
    const auto q = x(), key = x(), v = x(), out = x(), lse = at.matrix(batch * heads, T);
    kernels::KernelClock clock(threads);
    {
      const kernels::KernelClock::Measuring measuring(clock);
      kernels::attention_forward(
          *at.exec, {.shape = s, .q = q, .k = key, .v = v, .document_start = start, .out = out, .lse = lse});
      kernels::attention_backward(*at.exec, {.shape = s,
                                             .q = q,
                                             .k = key,
                                             .v = v,
                                             .document_start = start,
                                             .out = out,
                                             .lse = lse,
                                             .dout = x(),
                                             .dq = x(),
                                             .dk = x(),
                                             .dv = x()});
    }
    const auto rows = clock.rows();
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0].kernel, std::string("attention_forward_cpu"));
    EXPECT_EQ(rows[0].work.operations, 4 * batch * k.pairs * d);
    EXPECT_EQ(rows[1].work.operations, 10 * batch * k.pairs * d);
    for (const auto& r : rows) {
      EXPECT_GT(r.computing, 0);
      EXPECT_LE(r.packing + r.computing, r.team);
    }
  }
}

TEST(KernelClock, CountsTheRowsThatGroupsHave) {
  const test::Groups groups({5, 0, 9, 2});
  constexpr std::int64_t n = 24, k = 16;
  Kitchen at;
  auto ranges = groups.ranges;
  const kernels::RowGroups rows_of_groups{View::of(ranges.data(), {groups.count(), 2})};
  const auto weights = at.matrix(groups.count() * n, k);
  auto first = weights;
  first.shape[0] = n;
  const kernels::GroupedView stack{first, n * k, groups.count()};
  const auto x = at.matrix(groups.rows, k), y = at.matrix(groups.rows, n);
  auto gradient = at.matrix(groups.count() * n, k);
  gradient.shape[0] = n;
  const kernels::GroupedView gradients{gradient, n * k, groups.count()};
  kernels::KernelClock clock(threads);
  {
    const kernels::KernelClock::Measuring measuring(clock);
    kernels::grouped_linear_forward(*at.exec, {.groups = rows_of_groups, .x = x, .weight = stack, .lanes = 1, .y = y});
    kernels::grouped_linear_backward_weight(*at.exec, rows_of_groups, y, x, gradients, {});
  }
  ASSERT_EQ(clock.rows().size(), 2u);
  EXPECT_EQ(clock.rows()[0].kernel, std::string("grouped_linear_cpu"));
  EXPECT_EQ(clock.rows()[1].kernel, std::string("grouped_weight_cpu"));
  for (const auto& r : clock.rows()) {
    EXPECT_EQ(r.work.operations, 2 * 16 * n * k);
    EXPECT_GT(r.packing, 0);
    EXPECT_GT(r.computing, 0);
    EXPECT_LE(r.packing + r.computing, r.team);
  }
}

}  // namespace kernel_clock_test
}  // namespace trainyard
