// Tests the search for the first value that is not finite, in every dtype, without the gaps.
#include "kernels/finite/finite.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace finite_test {

TEST(Finite, FindsTheSmallestIndexAndIgnoresTheGap) {
  Bench bench(2);
  for (auto t : working_types) {
    MatrixBuffer x(t, 5, 7, 3);
    x.fill(1);
    EXPECT_EQ(kernels::first_nonfinite(*bench, x.view()), -1);
    x.set(4, 6, -INFINITY);
    EXPECT_EQ(kernels::first_nonfinite(*bench, x.view()), 34);
    x.set(2, 3, NAN), x.set(2, 5, INFINITY);
    EXPECT_EQ(kernels::first_nonfinite(*bench, x.view()), 17);
    x.set(0, 0, INFINITY);
    EXPECT_EQ(kernels::first_nonfinite(*bench, x.view()), 0);
  }
}

TEST(Finite, LargeAndSubnormalValuesAreFinite) {
  Bench bench(1);
  MatrixBuffer x(DType::f32, 1, 2);
  x.set(0, 0, 3.4e38), x.set(0, 1, 1e-45);
  EXPECT_EQ(kernels::first_nonfinite(*bench, x.view()), -1);
}

}  // namespace finite_test
}  // namespace trainyard::test
