// Tests bf16 products by pairs and by tiles, bit for bit against the instructions' definitions: step by step in f32
// with one rounding each. In emulation on every machine, and by the instruction where it exists.
#include "kernels/gemm/gemm.h"
#include "kernels/grouped_linear/grouped_linear.h"
#include "tests/kernels/matrix_buffer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <random>
#include <vector>

namespace trainyard {
namespace bf16_products_test {

using base::DType;
using kernels::Isa;
using Bits = std::vector<std::uint16_t>;

constexpr Isa paths[] = {Isa::emulated_bf16, Isa::avx512bf16, Isa::emulated_amx, Isa::amx};
bool by_tiles(Isa isa) { return isa == Isa::emulated_amx || isa == Isa::amx; }

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float widened(std::uint16_t bits) { return flushed(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16)); }

// One step. A result is denormal if it is below the least normal number after rounding with an unlimited exponent. That
// is computed in double, where x y is exact and so is the sum of numbers this small.
float multiply_add(float x, float y, float sum) {
  const float result = std::fma(x, y, sum);
  const double exact = static_cast<double>(x) * static_cast<double>(y) + static_cast<double>(sum);
  if (std::abs(result) == 0x1p-126f && std::abs(static_cast<float>(exact * 0x1p64)) < 0x1p-62f)
    return std::copysign(0.0f, result);
  return flushed(result);
}

// One element of a [m, k] times b [k, n]: blocks of 384 steps, each a fresh sum, added in order. By pairs, the second
// step of a pair comes first. By tiles, 32 steps make two fresh sums, of the even steps and of the odd steps. Their sum
// is then added to the block's.
float expected(Isa isa, const Bits& a, const Bits& b, std::int64_t k, std::int64_t n, std::int64_t i, std::int64_t j) {
  float total = 0;
  for (std::int64_t k0 = 0; k0 < k; k0 += 384) {
    const auto add_step = [&](std::int64_t step, float sum) {
      const bool there = step < std::min(k, k0 + 384);
      const float x = there ? widened(a[static_cast<std::size_t>(i * k + step)]) : 0.0f,
                  y = there ? widened(b[static_cast<std::size_t>(step * n + j)]) : 0.0f;
      return multiply_add(x, y, flushed(sum));
    };
    float sum = 0;
    for (std::int64_t p = k0; by_tiles(isa) && p < std::min(k, k0 + 384); p += 32) {
      float even = 0, odd = 0;
      for (std::int64_t q = p; q < p + 32; q += 2) even = add_step(q, even), odd = add_step(q + 1, odd);
      sum = flushed(sum + flushed(even + odd));
    }
    for (std::int64_t p = k0; !by_tiles(isa) && p < std::min(k, k0 + 384); p += 2)
      for (const auto step : {p + 1, p}) sum = add_step(step, sum);
    total = k0 == 0 ? sum : total + sum;
  }
  return total;
}

enum class Values { usual, tiny, any };
Bits values(std::int64_t count, Values kind, unsigned seed) {
  std::mt19937 random(seed);
  Bits out(static_cast<std::size_t>(count));
  for (auto& x : out) {
    const auto r = random();
    const unsigned exponent = kind == Values::usual ? 118 + r % 12 : kind == Values::tiny ? r % 80 : r % 256;
    x = static_cast<std::uint16_t>((r >> 16 & 0x8000u) | exponent << 7 | (r >> 20 & 0x7fu));
  }
  return out;
}

bool equal(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
}

struct Operand {
  Bits rows, turned;
  Operand(std::int64_t r, std::int64_t c, Values kind, unsigned seed) : rows(values(r * c, kind, seed)), turned(rows) {
    for (std::int64_t i = 0; i < r; ++i)
      for (std::int64_t j = 0; j < c; ++j)
        turned[static_cast<std::size_t>(j * r + i)] = rows[static_cast<std::size_t>(i * c + j)];
  }
};
base::View view(Bits& x, std::int64_t r, std::int64_t c) { return {x.data(), DType::bf16, {r, c}}; }

TEST(Bf16Products, ProductsHaveTheBitsOfTheDefinition) {
  struct {
    std::int64_t m, n, k;
  } const shapes[] = {{1, 1, 1},     {3, 5, 2},     {14, 32, 7},   {15, 33, 64},
                      {29, 70, 383}, {16, 40, 385}, {5, 64, 1001}, {49, 17, 31}};
  for (const auto isa : paths) {
    if (!kernels::machine_has(isa)) continue;
    kernels::set_isa(isa);
    for (const auto& s : shapes)
      for (const auto kind : {Values::usual, Values::tiny, Values::any})
        for (const int turned : {0, 1, 2, 3}) {
          Operand a(s.m, s.k, kind, 1), b(s.k, s.n, kind, 2);
          std::vector<float> c(static_cast<std::size_t>(s.m * s.n), -7);
          const bool ta = (turned & 1) != 0, tb = (turned & 2) != 0;
          test::Bench bench(turned == 3 ? 3 : 1);
          kernels::gemm(*bench, {.a = ta ? view(a.turned, s.k, s.m) : view(a.rows, s.m, s.k),
                                 .b = tb ? view(b.turned, s.n, s.k) : view(b.rows, s.k, s.n),
                                 .trans_a = ta ? kernels::Transpose::yes : kernels::Transpose::no,
                                 .trans_b = tb ? kernels::Transpose::yes : kernels::Transpose::no,
                                 .c = base::View::of(c.data(), {s.m, s.n})});
          for (std::int64_t i = 0; i < s.m; ++i)
            for (std::int64_t j = 0; j < s.n; ++j) {
              const float wanted = expected(isa, a.rows, b.rows, s.k, s.n, i, j),
                          got = c[static_cast<std::size_t>(i * s.n + j)];
              ASSERT_TRUE(equal(wanted, got)) << kernels::name_of(isa) << " " << s.m << " x " << s.n << " over " << s.k
                                              << " values " << static_cast<int>(kind) << " turned " << turned << " at "
                                              << i << ", " << j << ": " << got << ", not " << wanted;
            }
        }
  }
  kernels::set_isa(kernels::best_isa());
}

// Two groups. The first has an odd number of rows, so that the second begins a pair of its own.
TEST(Bf16Products, ProductsOfGroupsHaveThem) {
  constexpr std::int64_t first = 9, second = 20, rows = first + second, in = 37, out = 45;
  for (const auto isa : paths) {
    if (!kernels::machine_has(isa)) continue;
    kernels::set_isa(isa);
    Operand x(rows, in, Values::usual, 3), dy(rows, out, Values::usual, 4), w0(out, in, Values::usual, 5),
        w1(out, in, Values::usual, 6);
    auto weights = w0.rows;
    weights.insert(weights.end(), w1.rows.begin(), w1.rows.end());
    std::vector<std::int32_t> ranges{0, first, first, second};
    const kernels::RowGroups groups{base::View::of(ranges.data(), {2, 2})};
    std::vector<float> y(static_cast<std::size_t>(rows * out)), dw(static_cast<std::size_t>(2 * out * in));
    test::Bench bench(2);
    const kernels::GroupedView w{view(weights, out, in), out * in, 2};
    kernels::grouped_linear_forward(*bench, {.groups = groups,
                                             .x = view(x.rows, rows, in),
                                             .weight = w,
                                             .lanes = 1,
                                             .y = base::View::of(y.data(), {rows, out})});
    kernels::grouped_linear_backward_weight(*bench, groups, view(dy.rows, rows, out), view(x.rows, rows, in),
                                            {base::View::of(dw.data(), {out, in}), out * in, 2}, {});
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < out; ++j)
        ASSERT_TRUE(equal(expected(isa, x.rows, (i < first ? w0 : w1).turned, in, out, i, j),
                          y[static_cast<std::size_t>(i * out + j)]))
            << i << ", " << j;
    for (int g = 0; g < 2; ++g) {
      const auto from = g == 0 ? 0 : first, count = g == 0 ? first : second;
      const Bits d(dy.rows.begin() + from * out, dy.rows.begin() + (from + count) * out),
          r(x.rows.begin() + from * in, x.rows.begin() + (from + count) * in);
      Bits turned(d.size());
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t j = 0; j < out; ++j)
          turned[static_cast<std::size_t>(j * count + i)] = d[static_cast<std::size_t>(i * out + j)];
      for (std::int64_t i = 0; i < out; ++i)
        for (std::int64_t j = 0; j < in; ++j)
          ASSERT_TRUE(
              equal(expected(isa, turned, r, count, in, i, j), dw[static_cast<std::size_t>((g * out + i) * in + j)]))
              << g << ": " << i << ", " << j;
    }
  }
  kernels::set_isa(kernels::best_isa());
}

// Sums next to the least normal number 2^-126. The first pair reaches it, and the second takes a little off. A result
// that only rounding at denormal precision would bring back to it is zero. A result that an unlimited exponent rounds
// to it stays.
TEST(Bf16Products, ResultsNextToTheLeastNormalNumber) {
  const auto of = [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); };
  struct {
    float x, y, result;
  } const cases[] = {{0x1p-75f, -0x1p-75f, 0.0f},
                     {-0x1p-75f, 0x1p-75f, 0.0f},
                     {0x1p-76f, -0x1p-76f, 0x1p-126f},
                     {0x1.8p-75f, -0x1p-75f, 0.0f},
                     {0x1p-75f, 0x1p-74f, 0x1.000002p-126f}};
  for (const auto isa : paths) {
    if (!kernels::machine_has(isa)) continue;
    kernels::set_isa(isa);
    for (const auto& c : cases)
      for (const int second : {0, 1}) {  // which step of the second pair
        Bits a{of(0x1p-63f), 0, 0, 0}, b{of(0x1p-63f), 0, 0, 0};
        a[static_cast<std::size_t>(2 + second)] = of(c.x), b[static_cast<std::size_t>(2 + second)] = of(c.y);
        float got = -1;
        test::Bench bench(1);
        kernels::gemm(*bench, {.a = view(a, 1, 4),
                               .b = view(b, 4, 1),
                               .trans_a = kernels::Transpose::no,
                               .trans_b = kernels::Transpose::no,
                               .c = base::View::of(&got, {1, 1})});
        if (!by_tiles(isa) || second == 0) {  // tiles add odd steps to a sum of their own
          EXPECT_EQ(got, c.result) << kernels::name_of(isa) << ": " << c.x << " times " << c.y << ", step " << second;
        }
        EXPECT_TRUE(equal(got, expected(isa, a, b, 4, 1, 0, 0)));
      }
  }
  kernels::set_isa(kernels::best_isa());
}

// Products of f32 have the bits of the base path.
TEST(Bf16Products, ProductsOfF32AreThoseOfTheBase) {
  constexpr std::int64_t m = 20, n = 40, k = 50;
  std::vector<float> a(m * k), b(k * n);
  std::mt19937 random(1);
  for (auto* v : {&a, &b})
    for (auto& e : *v) e = static_cast<float>(random() % 2001) * 0.001f - 1;
  const auto product = [&](Isa isa) {
    kernels::set_isa(isa);
    std::vector<float> c(m * n);
    test::Bench bench(1);
    kernels::gemm(*bench, {.a = base::View::of(a.data(), {m, k}),
                           .b = base::View::of(b.data(), {k, n}),
                           .trans_a = kernels::Transpose::no,
                           .trans_b = kernels::Transpose::no,
                           .c = base::View::of(c.data(), {m, n})});
    kernels::set_isa(kernels::best_isa());
    return c;
  };
  for (const auto isa : paths) {
    if (!kernels::machine_has(isa)) continue;
    EXPECT_EQ(product(isa), product(kernels::base_of(isa))) << kernels::name_of(isa);
  }
}

TEST(Bf16Products, EmulatedPathsAreNobodysChoice) {
  for (const auto isa : {Isa::emulated_bf16, Isa::emulated_amx}) {
    EXPECT_TRUE(kernels::machine_has(isa));
    EXPECT_NE(kernels::best_isa(), isa);
  }
  for (const auto isa : {Isa::amx, Isa::avx512bf16}) {
    if (!kernels::machine_has(isa)) continue;
    EXPECT_EQ(kernels::best_isa(), isa);
    break;
  }
}

}  // namespace bf16_products_test
}  // namespace trainyard
