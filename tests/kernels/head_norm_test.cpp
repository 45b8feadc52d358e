// Norms of queries and keys against double: of each head with weights that all heads share, and over the width of all
// heads, whose sums come lane by lane.
#include "kernels/head_norm/head_norm.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/operand_types.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace head_norm_test {

constexpr double epsilon = 1e-2, offset = 0.5;

struct Shape {
  std::int64_t n, heads, dim;
  bool whole;           // one group: the width of all heads, of which other ranks have as much again
  std::int64_t slices;  // of the sums over one group, and of the weights' gradients where groups share weights

  std::int64_t cols() const { return heads * dim; }
  std::int64_t weights() const { return whole ? cols() : dim; }
  std::int64_t groups() const { return whole ? 1 : heads; }
  std::int64_t width() const { return whole ? 2 * cols() : dim; }
  std::int64_t weight_slices() const { return whole ? 1 : slices; }
};

struct Inputs {
  MatrixBuffer x, dy, weight, squares, dots;
  Inputs(DType t, const Shape& s)
      : x(t, s.n, s.cols(), 3), dy(t, s.n, s.cols(), 1), weight(t, 1, s.weights()),
        squares(accumulation(t), s.groups(), s.n, 2), dots(accumulation(t), s.groups(), s.n) {
    x.fill(1), dy.fill(2), weight.fill(3), dots.fill(5);
    for (std::int64_t g = 0; g < s.groups(); ++g)
      for (std::int64_t r = 0; r < s.n; ++r)
        squares.set(g, r, 0.3 + static_cast<double>((g * 7 + r * 3) % 11) * static_cast<double>(s.width()) / 9);
  }
  // The numbers that the kernels get, in double.
  double rstd(const Shape& s, std::int64_t g, std::int64_t r) const {
    return 1 / std::sqrt(squares(g, r) / static_cast<double>(s.width()) + epsilon);
  }
  double factor(const Shape& s, std::int64_t c) const { return weight(0, c % s.weights()) + offset; }
};

std::vector<MatrixBuffer> run(tensor::Exec& exec, DType t, const Shape& s) {
  Inputs p(t, s);
  const auto g = accumulation(t);
  const auto slices = s.whole ? s.slices : s.heads;
  MatrixBuffer squares(g, slices, s.n, 5), dots(g, slices, s.n), y(t, s.n, s.cols(), 2), dx(t, s.n, s.cols(), 4),
      dweight(g, s.weight_slices(), s.weights(), 6);
  const auto weight = p.weight.view().reshaped({s.weights()});
  kernels::head_norm_sums(exec, {.x = p.x.view(), .out = squares.view()});
  kernels::head_norm_sums(exec,
                          {.x = p.x.view(), .dy = p.dy.view(), .weight = weight, .offset = offset, .out = dots.view()});
  const kernels::HeadNorm norm{
      .weight = weight, .squares = p.squares.view(), .width = s.width(), .epsilon = epsilon, .offset = offset};
  kernels::head_norm_forward(exec, norm, p.x.view(), y.view());
  kernels::head_norm_backward(exec, {.norm = norm,
                                     .dy = p.dy.view(),
                                     .x = p.x.view(),
                                     .dots = p.dots.view(),
                                     .dx = dx.view(),
                                     .dweight = dweight.view()});
  EXPECT_EQ(exec.scratch().peak_bytes(),
            plan::column_sum_scratch_bytes(s.n, s.weight_slices() * s.weights(), base::size_of(g)));
  auto in_place = p.x, over_dy = p.dy;
  kernels::head_norm_forward(exec, norm, in_place.view(), in_place.view());
  kernels::head_norm_backward(exec, {.norm = norm,
                                     .dy = over_dy.view(),
                                     .x = p.x.view(),
                                     .dots = p.dots.view(),
                                     .dx = over_dy.view(),
                                     .dweight = dweight.view()});
  for (std::int64_t r = 0; r < s.n; ++r)
    for (std::int64_t c = 0; c < s.cols(); ++c)
      EXPECT_TRUE(in_place(r, c) == y(r, c) && over_dy(r, c) == dx(r, c)) << r << "," << c;
  return {squares, dots, y, dx, dweight};
}

void check(DType t, const Shape& s, const std::vector<MatrixBuffer>& out) {
  const Inputs p(t, s);
  const auto g = accumulation(t);
  const auto slices = out[0].rows, slice = s.cols() / slices;
  std::vector<double> dweight(static_cast<std::size_t>(s.weight_slices() * s.weights())), size(dweight);
  for (std::int64_t r = 0; r < s.n; ++r) {
    for (std::int64_t i = 0; i < slices; ++i) {
      double squares = 0, dots = 0;
      for (auto c = i * slice; c < (i + 1) * slice; ++c)
        squares += p.x(r, c) * p.x(r, c), dots += p.dy(r, c) * p.factor(s, c) * p.x(r, c);
      ASSERT_TRUE(near(g, out[0](i, r), squares, squares));
      ASSERT_TRUE(near(g, out[1](i, r), dots, 1.5 * static_cast<double>(slice)));
    }
    for (std::int64_t c = 0; c < s.cols(); ++c) {
      const auto group = s.whole ? 0 : c / s.dim;
      const double rstd = p.rstd(s, group, r), hat = p.x(r, c) * rstd,
                   along = p.dots(group, r) * rstd / static_cast<double>(s.width());
      const double scale = (2 + rstd) * (2 + rstd);
      ASSERT_TRUE(near(t, out[2](r, c), hat * p.factor(s, c), scale)) << "y " << r << "," << c;
      ASSERT_TRUE(near(t, out[3](r, c), rstd * (p.dy(r, c) * p.factor(s, c) - hat * along), scale * scale))
          << "dx " << r << "," << c;
      const auto set = s.whole ? 0 : c / s.dim / (s.heads / s.slices);
      const auto at = static_cast<std::size_t>(set * s.weights() + c % s.weights());
      dweight[at] += p.dy(r, c) * hat, size[at] += scale;
    }
  }
  for (std::int64_t i = 0; i < s.weight_slices(); ++i)
    for (std::int64_t c = 0; c < s.weights(); ++c) {
      const auto at = static_cast<std::size_t>(i * s.weights() + c);
      ASSERT_TRUE(near(g, out[4](i, c), dweight[at], size[at])) << "dweight " << i << "," << c;
    }
}

TEST(HeadNorm, EqualsTheFormula) {
  for (const Shape& s :
       {Shape{1, 1, 2, false, 1}, Shape{65, 4, 6, false, 2}, Shape{130, 3, 16, false, 3}, Shape{3, 2, 257, false, 1},
        Shape{1, 1, 2, true, 1}, Shape{65, 4, 6, true, 2}, Shape{130, 6, 16, true, 6}, Shape{3, 2, 257, true, 1}})
    sweep([&](tensor::Exec& exec, DType t) { return run(exec, t, s); },
          [&](DType t, const std::vector<MatrixBuffer>& out) { check(t, s, out); });
}

TEST(HeadNorm, RefusesOtherTypes) {
  for (const auto t : working_types) {
    const auto g = accumulation(t);
    const Operand x = lead("x", {2, 12}, t), dy{"dy", {2, 12}, t}, weight{"weight", {3}, t}, y{"y", {2, 12}, t},
                  dx{"dx", {2, 12}, t}, squares{"squares", {4, 2}, g}, dots{"dots", {4, 2}, g}, out{"out", {4, 2}, g},
                  dweight{"dweight", {1, 3}, g};
    const auto norm = [](const View& weight_, const View& squares_) {
      return kernels::HeadNorm{.weight = weight_, .squares = squares_, .width = 3, .epsilon = 1};
    };
    expect_types("head_norm_sums", {x, dy, weight, out}, [](auto& e, const auto& v) {
      kernels::head_norm_sums(e, {.x = v[0], .dy = v[1], .weight = v[2], .out = v[3]});
    });
    expect_types("head_norm_forward", {x, weight, squares, y},
                 [&](auto& e, const auto& v) { kernels::head_norm_forward(e, norm(v[1], v[2]), v[0], v[3]); });
    expect_types("head_norm_backward", {x, dy, weight, squares, dots, dx, dweight}, [&](auto& e, const auto& v) {
      kernels::head_norm_backward(
          e, {.norm = norm(v[2], v[3]), .dy = v[1], .x = v[0], .dots = v[4], .dx = v[5], .dweight = v[6]});
    });
  }
}

}  // namespace head_norm_test
}  // namespace trainyard::test
