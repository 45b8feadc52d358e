// Tests Newton-Schulz iterations: what they make of singular values, a computation in double precision, and the planned
// scratch.
#include "kernels/newton_schulz/newton_schulz.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace newton_schulz_test {

using Matrix = std::vector<std::vector<double>>;

Matrix zeros(std::int64_t rows, std::int64_t cols) {
  return Matrix(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(cols), 0.0));
}

Matrix product(const Matrix& a, const Matrix& b) {
  auto c = zeros(std::ssize(a), std::ssize(b[0]));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < b.size(); ++k)
      for (std::size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
  return c;
}

Matrix transposed(const Matrix& a) {
  auto t = zeros(std::ssize(a[0]), std::ssize(a));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  return t;
}

// An orthogonal matrix: I - 2 v v' / v'v.
Matrix mirror(std::int64_t n, double seed) {
  std::vector<double> v;
  double square = 0;
  for (std::int64_t i = 0; i < n; ++i)
    v.push_back(std::sin(seed + 1.7 * static_cast<double>(i))), square += v.back() * v.back();
  auto m = zeros(n, n);
  for (std::size_t i = 0; i < m.size(); ++i)
    for (std::size_t j = 0; j < m.size(); ++j) m[i][j] = (i == j ? 1 : 0) - 2 * v[i] * v[j] / square;
  return m;
}

// The polynomial of Jordan et al. 2024, five times, of a singular value.
double moved(double s) {
  for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
  return s;
}

// u diag(values) v', rows x cols.
Matrix with_values(const std::vector<double>& values, std::int64_t rows, std::int64_t cols) {
  auto d = zeros(rows, cols);
  for (std::size_t i = 0; i < values.size(); ++i) d[i][i] = values[i];
  return product(product(mirror(rows, 0.3), d), transposed(mirror(cols, 0.9)));
}

MatrixBuffer buffer_of(const Matrix& m) {
  MatrixBuffer b(DType::f32, std::ssize(m), std::ssize(m[0]));
  for (std::int64_t i = 0; i < b.rows; ++i)
    for (std::int64_t j = 0; j < b.cols; ++j) b.set(i, j, m[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]);
  return b;
}

const std::pair<std::int64_t, std::int64_t> shapes[] = {{1, 1},   {1, 9},   {7, 1},   {5, 5},    {16, 16},
                                                        {12, 40}, {40, 12}, {33, 70}, {130, 50}, {400, 20}};

std::int64_t scratch_of(std::int64_t rows, std::int64_t cols) {
  return plan::newton_schulz_scratch_bytes(rows, cols, plan::newton_schulz_products_bytes(rows, cols));
}

TEST(NewtonSchulz, MovesSingularValuesAsThePolynomialDoes) {
  for (const auto& [rows, cols] : shapes) {
    std::vector<double> values, expected;
    double square = 0;
    for (std::int64_t i = 0; i < std::min(rows, cols); ++i)
      values.push_back(i == 3 ? 0 : 40 * std::pow(0.8, static_cast<double>(i))),
          square += values.back() * values.back();
    for (const double s : values) expected.push_back(0.25 * moved(s / std::sqrt(square)));
    const auto want = with_values(expected, rows, cols);
    auto x = buffer_of(with_values(values, rows, cols));
    Bench bench(2, scratch_of(rows, cols));
    kernels::newton_schulz(*bench, x.view(), 0.25f);
    EXPECT_EQ(bench.arena.peak_bytes(), scratch_of(rows, cols)) << rows << " x " << cols;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        ASSERT_NEAR(x(i, j), want[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)], 3e-5)
            << rows << " x " << cols << " at " << i << "," << j;
  }
}

// As the paper writes it, for a matrix without structure: transposed if it is tall, and a x + (b gram + c gram^2) x.
Matrix in_double(const MatrixBuffer& from) {
  auto x = zeros(from.rows, from.cols);
  double square = 0;
  for (std::int64_t i = 0; i < from.rows; ++i)
    for (std::int64_t j = 0; j < from.cols; ++j) {
      x[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = from(i, j);
      square += from(i, j) * from(i, j);
    }
  for (auto& row : x)
    for (auto& v : row) v /= std::sqrt(square);
  const bool tall = from.rows > from.cols;
  if (tall) x = transposed(x);
  for (int step = 0; step < 5; ++step) {
    const auto gram = product(x, transposed(x)), gram2 = product(gram, gram);
    auto b = gram;
    for (std::size_t i = 0; i < b.size(); ++i)
      for (std::size_t j = 0; j < b.size(); ++j) b[i][j] = -4.7750 * gram[i][j] + 2.0315 * gram2[i][j];
    const auto more = product(b, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < x[0].size(); ++j) x[i][j] = 3.4445 * x[i][j] + more[i][j];
  }
  return tall ? transposed(x) : x;
}

TEST(NewtonSchulz, EqualsDoublePrecisionAndItselfOnMoreThreads) {
  for (const auto& [rows, cols] : shapes) {
    MatrixBuffer from(DType::f32, rows, cols);
    from.fill(static_cast<std::uint64_t>(rows * 100 + cols));
    const auto want = in_double(from);
    on_every_path([&, rows = rows, cols = cols] {
      std::vector<char> first;
      for (const int threads : {1, 2, 3}) {
        auto x = from;
        Bench bench(threads, scratch_of(rows, cols));
        kernels::newton_schulz(*bench, x.view(), 1);
        if (threads == 1) first = x.bytes;
        ASSERT_EQ(x.bytes, first) << threads << " threads, " << rows << " x " << cols;
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < cols; ++j)
            ASSERT_NEAR(x(i, j), want[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)], 2e-4)
                << rows << " x " << cols << " at " << i << "," << j;
      }
    });
  }
}

// The norm is divided out, whatever its size, so the result depends on no power of two.
TEST(NewtonSchulz, DependsOnNoScaleOfItsInput) {
  MatrixBuffer x(DType::f32, 6, 10), tiny(DType::f32, 6, 10);
  x.fill(3);
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j < 10; ++j) tiny.set(i, j, x(i, j) * 0x1p-60);
  Bench bench(1);
  kernels::newton_schulz(*bench, x.view(), 1);
  kernels::newton_schulz(*bench, tiny.view(), 1);
  EXPECT_EQ(tiny.bytes, x.bytes);
  MatrixBuffer zero(DType::f32, 6, 10);
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j < 10; ++j) zero.set(i, j, 0);
  kernels::newton_schulz(*bench, zero.view(), 1);
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j < 10; ++j) EXPECT_EQ(zero(i, j), 0);
}

TEST(NewtonSchulz, RefusesWhatItDoesNotTake) {
  Bench bench(1);
  MatrixBuffer gaps(DType::f32, 3, 4, 2), wide(DType::f64, 3, 4);
  EXPECT_ANY_THROW(kernels::newton_schulz(*bench, gaps.fill(1).view(), 1));
  EXPECT_ANY_THROW(kernels::newton_schulz(*bench, wide.fill(1).view(), 1));
}

}  // namespace newton_schulz_test
}  // namespace trainyard::test
