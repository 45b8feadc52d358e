// Compares the rotation with complex numbers in double. Also its inverse, and what it must not touch.
#include "kernels/rotary/rotary.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/sweep.h"

#include <complex>

namespace trainyard::test {
namespace rotary_test {

constexpr std::int64_t heads = 3;
kernels::RotaryHeads whole(std::int64_t head_dim, double base) {
  return {.heads = heads, .head_dim = head_dim, .base = base};
}
// Two sequences; positions restart in the middle of the second one, as with a document mask.
std::vector<std::int32_t> positions() { return {0, 1, 2, 3, 4, 500, 0, 1, 0, 1, 2, 3}; }

void check_size(std::int64_t head_dim, double base) {
  auto position = positions();
  sweep(
      [&](tensor::Exec& exec, DType t) {
        MatrixBuffer x(t, 12, heads * head_dim, 3);
        x.fill(7);
        kernels::rotary_forward(exec, x.view(), vector_view(position, 2), whole(head_dim, base));
        auto back = x;
        kernels::rotary_backward(exec, back.view(), vector_view(position, 2), whole(head_dim, base));
        EXPECT_LE(exec.scratch().peak_bytes(), trainyard::plan::rotary_scratch_bytes(12, head_dim));
        return std::vector{x, back};
      },
      [&](DType t, const std::vector<MatrixBuffer>& out) {
        MatrixBuffer x(t, 12, heads * head_dim);
        x.fill(7);
        const auto half = head_dim / 2;
        for (std::int64_t r = 0; r < 12; ++r)
          for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t i = 0; i < half; ++i) {
              const auto low = h * head_dim + i, high = low + half;
              const double angle = position[static_cast<std::size_t>(r)] /
                                   std::pow(base, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
              const auto turned = std::complex<double>(x(r, low), x(r, high)) * std::polar(1.0, angle);
              ASSERT_TRUE(near(t, out[0](r, low), turned.real(), 2)) << r << "," << low;
              ASSERT_TRUE(near(t, out[0](r, high), turned.imag(), 2)) << r << "," << high;
              const double bound = 4 * rounding(t);
              ASSERT_NEAR(out[1](r, low), x(r, low), bound);
              ASSERT_NEAR(out[1](r, high), x(r, high), bound);
            }
      });
}

TEST(Rotary, TurnsHalfSplitPairs) {
  check_size(2, 10000);
  check_size(6, 10000);
  check_size(64, 500000);
}

TEST(Rotary, TurnsAColumnSliceOnly) {
  Bench bench(2);
  std::vector<std::int32_t> position{1, 2, 3};
  MatrixBuffer x(DType::f32, 3, 20);
  x.fill(1);
  const auto before = x;
  kernels::rotary_forward(*bench, x.view().columns(4, 8), vector_view(position, 1), {.heads = 2, .head_dim = 4});
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t c = 0; c < 20; ++c)
      if (c < 4 || c >= 12) ASSERT_EQ(x(r, c), before(r, c));
      else ASSERT_NE(x(r, c), before(r, c));
}

// Scaled angles. Frequencies and factors are those of transformers (modeling_rope_utils, version 5.24), in f32.
struct Scaled {
  plan::RotaryConfig config;
  std::int64_t head_dim;
  double amplitude;
  std::vector<double> frequencies;
};
std::vector<Scaled> scaled() {
  using enum plan::RotaryScaling;
  const double usual = 1.138629436111989;
  return {
      {{.scaling = linear, .factor = 4},
       16,
       1,
       {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.0025, 0.000790569466, 0.00025, 7.90569466e-05}},
      {{.scaling = llama3, .factor = 8, .original = 64},
       16,
       1,
       {1, 0.244384587, 0.0130422562, 0.00395284733, 0.00125, 0.000395284733, 0.000125, 3.95284733e-05}},
      {{.scaling = llama3, .factor = 8, .original = 64, .fraction = 0.4}, 20, 1, {1, 0.0130422562, 0.00125, 0.000125}},
      {{.scaling = yarn, .factor = 4, .original = 64},
       16,
       usual,
       {1, 0.237170815, 0.05, 0.00790569466, 0.0025, 0.000790569466, 0.00025, 7.90569466e-05}},
      {{.scaling = yarn, .factor = 4, .original = 4096, .beta_fast = 16, .beta_slow = 2, .attention_factor = 0.9},
       16,
       0.9,
       {1, 0.316227764, 0.1, 0.0316227786, 0.0075, 0.00158113893, 0.00025, 7.90569466e-05}},
      {{.scaling = yarn, .factor = 4, .original = 4096, .fraction = 0.5}, 16, usual, {1, 0.1, 0.00625, 0.00025}},
      {{.scaling = yarn, .factor = 4, .original = 8, .beta_slow = 30},  // every pair turns too slowly
       16,
       usual,
       {1, 0.316227764, 0.1, 0.0316227786, 0.01, 0.00316227786, 0.001, 0.000316227786}}};
}

TEST(Rotary, ScalesAnglesAsTransformersDoes) {
  for (const auto& s : scaled()) {
    Bench bench(2);
    const kernels::RotaryHeads of{.heads = heads, .head_dim = s.head_dim, .config = s.config};
    std::vector<std::int32_t> position{0, 1, 40};
    MatrixBuffer x(DType::f64, 3, heads * s.head_dim);
    x.fill(3);
    auto y = x, back = x;
    kernels::rotary_forward(*bench, y.view(), vector_view(position, 1), of);
    kernels::rotary_backward(*bench, back.view(), vector_view(position, 1), of);
    const auto pairs = static_cast<std::int64_t>(s.frequencies.size());
    ASSERT_EQ(plan::rotated_width(s.config, s.head_dim), 2 * pairs);
    for (std::int64_t r = 0; r < 3; ++r)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < s.head_dim; ++i) {
          const auto c = h * s.head_dim + i;
          if (i >= 2 * pairs) {
            ASSERT_EQ(y(r, c), x(r, c));
            ASSERT_EQ(back(r, c), x(r, c));
          }
          if (i >= pairs) continue;
          const auto turn = std::polar(
              s.amplitude, position[static_cast<std::size_t>(r)] * s.frequencies[static_cast<std::size_t>(i)]);
          const std::complex<double> pair(x(r, c), x(r, c + pairs));
          const auto there = pair * turn, inverse = pair * std::conj(turn);
          ASSERT_NEAR(y(r, c), there.real(), 5e-6);
          ASSERT_NEAR(y(r, c + pairs), there.imag(), 5e-6);
          ASSERT_NEAR(back(r, c), inverse.real(), 5e-6);
          ASSERT_NEAR(back(r, c + pairs), inverse.imag(), 5e-6);
        }
  }
}

}  // namespace rotary_test
}  // namespace trainyard::test
