// Compares the rotation with complex numbers in double. Also its inverse, and what it must not touch.
#include "kernels/rotary/rotary.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/sweep.h"

#include <complex>

namespace trainyard::test {
namespace rotary_test {

constexpr std::int64_t heads = 3;
// Two sequences; positions restart in the middle of the second one, as with a document mask.
std::vector<std::int32_t> positions() { return {0, 1, 2, 3, 4, 500, 0, 1, 0, 1, 2, 3}; }

void check_size(std::int64_t head_dim, double base) {
  auto position = positions();
  sweep(
      [&](tensor::Exec& exec, DType t) {
        MatrixBuffer x(t, 12, heads * head_dim, 3);
        x.fill(7);
        kernels::rotary_forward(exec, x.view(), vector_view(position, 2), heads, head_dim, base);
        auto back = x;
        kernels::rotary_backward(exec, back.view(), vector_view(position, 2), heads, head_dim, base);
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
  kernels::rotary_forward(*bench, x.view().columns(4, 8), vector_view(position, 1), 2, 4, 10000);
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t c = 0; c < 20; ++c)
      if (c < 4 || c >= 12) ASSERT_EQ(x(r, c), before(r, c));
      else ASSERT_NE(x(r, c), before(r, c));
}

}  // namespace rotary_test
}  // namespace trainyard::test
