// Compares layer norm and RMS norm, forward, backward and fused with the residual, with double formulas.
#include "kernels/norm/norm.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace norm_test {

using kernels::Into;
enum class Kind { layer, rms };
constexpr double epsilon = 1e-5;

struct Problem {
  MatrixBuffer x, weight, bias, dy, dx;
  Problem(DType t, std::int64_t n, std::int64_t h)
      : x(t, n, h, 2), weight(t, 1, h), bias(t, 1, h), dy(t, n, h, 1), dx(t, n, h, 3) {
    x.fill(1), weight.fill(2), bias.fill(3), dy.fill(4), dx.fill(5);
  }
};

struct Statistics {
  double mean, rstd;
};
Statistics statistics(Kind kind, const MatrixBuffer& x, std::int64_t r) {
  double mean = 0, square = 0;
  if (kind == Kind::layer)
    for (std::int64_t c = 0; c < x.cols; ++c) mean += x(r, c) / static_cast<double>(x.cols);
  for (std::int64_t c = 0; c < x.cols; ++c) square += (x(r, c) - mean) * (x(r, c) - mean) / static_cast<double>(x.cols);
  return {mean, 1 / std::sqrt(square + epsilon)};
}

// Outputs: y, mean, rstd, dx, dweight, dbias (layer); the last one is dx with Into::overwrite.
std::vector<MatrixBuffer> run(Kind kind, tensor::Exec& exec, DType t, std::int64_t n, std::int64_t h,
                              double offset = 0) {
  Problem p(t, n, h);
  const auto g = accumulation(t);
  MatrixBuffer y(t, n, h, 1), mean(g, 1, n), rstd(g, 1, n), dweight(g, 1, h), dbias(g, 1, h), fresh(t, n, h, 1);
  if (kind == Kind::layer) {
    kernels::layer_norm_forward(exec, {.x = p.x.view(),
                                       .weight = p.weight.view(),
                                       .bias = p.bias.view(),
                                       .epsilon = epsilon,
                                       .y = y.view(),
                                       .mean = mean.view(),
                                       .rstd = rstd.view(),
                                       .offset = offset});
    kernels::layer_norm_backward(exec, {.dy = p.dy.view(),
                                        .x = p.x.view(),
                                        .weight = p.weight.view(),
                                        .mean = mean.view(),
                                        .rstd = rstd.view(),
                                        .dx = p.dx.view(),
                                        .dweight = dweight.view(),
                                        .dbias = dbias.view(),
                                        .into = Into::add,
                                        .offset = offset});
    kernels::layer_norm_backward(exec, {.dy = p.dy.view(),
                                        .x = p.x.view(),
                                        .weight = p.weight.view(),
                                        .mean = mean.view(),
                                        .rstd = rstd.view(),
                                        .dx = fresh.view(),
                                        .dweight = dweight.view(),
                                        .dbias = dbias.view(),
                                        .into = Into::overwrite,
                                        .offset = offset});
  } else {
    kernels::rms_norm_forward(exec, {.x = p.x.view(),
                                     .weight = p.weight.view(),
                                     .epsilon = epsilon,
                                     .y = y.view(),
                                     .rstd = rstd.view(),
                                     .offset = offset});
    kernels::rms_norm_backward(exec, {.dy = p.dy.view(),
                                      .x = p.x.view(),
                                      .weight = p.weight.view(),
                                      .rstd = rstd.view(),
                                      .dx = p.dx.view(),
                                      .dweight = dweight.view(),
                                      .into = Into::add,
                                      .offset = offset});
    kernels::rms_norm_backward(exec, {.dy = p.dy.view(),
                                      .x = p.x.view(),
                                      .weight = p.weight.view(),
                                      .rstd = rstd.view(),
                                      .dx = fresh.view(),
                                      .dweight = dweight.view(),
                                      .into = Into::overwrite,
                                      .offset = offset});
    mean.fill(0), dbias.fill(0);
  }
  EXPECT_LE(exec.scratch().peak_bytes(), plan::norm_scratch_bytes(n, h, base::size_of(g)));
  return {y, mean, rstd, p.dx, dweight, dbias, fresh};
}

void check(Kind kind, DType t, const std::vector<MatrixBuffer>& out, double offset = 0) {
  const auto n = out[0].rows, h = out[0].cols;
  const Problem p(t, n, h);
  const auto g = accumulation(t);
  const double count = static_cast<double>(h);
  std::vector<double> dweight(static_cast<std::size_t>(h)), dbias(dweight), size(dweight);
  for (std::int64_t r = 0; r < n; ++r) {
    const auto s = statistics(kind, p.x, r);
    if (kind == Kind::layer) {
      ASSERT_TRUE(near(g, out[1](0, r), s.mean, 1));
    }
    ASSERT_TRUE(near(g, out[2](0, r), s.rstd, s.rstd * (1 + s.rstd)));
    double plain = 0, along = 0;
    const auto hat = [&](std::int64_t c) { return (p.x(r, c) - s.mean) * s.rstd; };
    for (std::int64_t c = 0; c < h; ++c) {
      const double gw = p.dy(r, c) * (p.weight(0, c) + offset);
      if (kind == Kind::layer) plain += gw / count;
      along += gw * hat(c) / count;
    }
    const double scale = 2 + s.rstd * s.rstd;
    for (std::int64_t c = 0; c < h; ++c) {
      ASSERT_TRUE(
          near(t, out[0](r, c), hat(c) * (p.weight(0, c) + offset) + (kind == Kind::layer ? p.bias(0, c) : 0), scale))
          << "y " << r << "," << c;
      const double part = s.rstd * (p.dy(r, c) * (p.weight(0, c) + offset) - plain - hat(c) * along);
      ASSERT_TRUE(near(t, out[6](r, c), part, scale)) << "dx " << r << "," << c;
      ASSERT_TRUE(near(t, out[3](r, c), p.dx(r, c) + part, scale)) << "added dx " << r << "," << c;
      const auto i = static_cast<std::size_t>(c);
      dweight[i] += p.dy(r, c) * hat(c), dbias[i] += p.dy(r, c), size[i] += scale;
    }
  }
  for (std::int64_t c = 0; c < h; ++c) {
    const auto i = static_cast<std::size_t>(c);
    ASSERT_TRUE(near(g, out[4](0, c), dweight[i], size[i])) << "dweight " << c;
    if (kind == Kind::layer) {
      ASSERT_TRUE(near(g, out[5](0, c), dbias[i], size[i])) << "dbias " << c;
    }
  }
}

const std::int64_t shapes[][2] = {{1, 1}, {3, 7}, {65, 33}, {130, 257}};

void sweep_kind(Kind kind) {
  for (const auto& s : shapes)
    sweep([&](tensor::Exec& exec, DType t) { return run(kind, exec, t, s[0], s[1]); },
          [&](DType t, const std::vector<MatrixBuffer>& out) { check(kind, t, out); });
}
TEST(Norm, LayerNorm) { sweep_kind(Kind::layer); }
TEST(Norm, RmsNorm) { sweep_kind(Kind::rms); }
TEST(Norm, WeightsPlusAnOffset) {
  for (auto kind : {Kind::layer, Kind::rms})
    sweep([&](tensor::Exec& exec, DType t) { return run(kind, exec, t, 65, 33, 1); },
          [&](DType t, const std::vector<MatrixBuffer>& out) { check(kind, t, out, 1); });
}
// The sum of weight and offset is not rounded to the dtype of the weight: sqrt(2) 127.640625 is 180.5 and a bit, and
// sqrt(2) 127.5 would be 180.3.
TEST(Norm, TheOffsetIsAddedInTheTypeOfStatistics) {
  Bench bench(1);
  const auto t = DType::bf16;
  MatrixBuffer x(t, 1, 2), weight(t, 1, 2), y(t, 1, 2), rstd(DType::f32, 1, 1), residual(t, 1, 2), sum(t, 1, 2),
      z(t, 1, 2);
  for (int c = 0; c < 2; ++c) x.set(0, c, c == 0 ? 256 : 0), weight.set(0, c, 0.640625), residual.set(0, c, 0);
  kernels::rms_norm_forward(
      *bench,
      {.x = x.view(), .weight = weight.view(), .epsilon = 1e-12, .y = y.view(), .rstd = rstd.view(), .offset = 127});
  kernels::rms_norm_residual_forward(*bench, {.residual = residual.view(),
                                              .branch = x.view(),
                                              .dropout = {},
                                              .weight = weight.view(),
                                              .epsilon = 1e-12,
                                              .sum = sum.view(),
                                              .y = z.view(),
                                              .rstd = rstd.view(),
                                              .offset = 127});
  EXPECT_EQ(y(0, 0), 181);
  EXPECT_EQ(z(0, 0), 181);
}

// Ranks with neighbouring blocks of 64 rows: dx of their rows, and weight gradients from the partial sums of all ranks,
// have the bits of one rank.
void check_cut(Kind kind, std::int64_t n, std::int64_t h, std::int64_t ranks, double offset = 0) {
  sweep(
      [&](tensor::Exec& exec, DType t) {
        const auto want = run(kind, exec, t, n, h, offset);
        Problem p(t, n, h), fresh(t, n, h);
        const auto g = accumulation(t);
        const auto rows = n / ranks, partial_rows = plan::norm_partial_rows(rows);
        auto mean = want[1], rstd = want[2];
        MatrixBuffer partials(g, ranks * partial_rows, h), dweight(g, 1, h), dbias(g, 1, h), dx(t, n, h, 1);
        for (auto into : {Into::add, Into::overwrite})
          for (auto r = ranks - 1; r >= 0; --r) {
            const auto part = [&](MatrixBuffer& m) { return m.view().row_range(r * rows, rows); };
            const auto vm = mean.view().columns(r * rows, rows), vr = rstd.view().columns(r * rows, rows),
                       out = into == Into::add ? part(p.dx) : part(dx),
                       sums = partials.view().row_range(r * partial_rows, partial_rows);
            if (kind == Kind::layer)
              kernels::layer_norm_backward_rows(exec, {.dy = part(p.dy),
                                                       .x = part(p.x),
                                                       .weight = p.weight.view(),
                                                       .mean = vm,
                                                       .rstd = vr,
                                                       .dx = out,
                                                       .partials = sums,
                                                       .into = into,
                                                       .offset = offset});
            else
              kernels::rms_norm_backward_rows(exec, {.dy = part(p.dy),
                                                     .x = part(p.x),
                                                     .weight = p.weight.view(),
                                                     .rstd = vr,
                                                     .dx = out,
                                                     .partials = sums,
                                                     .into = into,
                                                     .offset = offset});
          }
        kernels::norm_partial_sums(exec, partials.view(), ranks, dweight.view(),
                                   kind == Kind::layer ? dbias.view() : base::View{});
        EXPECT_EQ(p.dx.bytes, want[3].bytes) << "added dx";
        EXPECT_EQ(dx.bytes, want[6].bytes) << "dx";
        EXPECT_EQ(dweight.bytes, want[4].bytes) << "dweight";
        if (kind == Kind::layer) EXPECT_EQ(dbias.bytes, want[5].bytes) << "dbias";
        else
          for (std::int64_t b = partial_rows / 2; b < partial_rows; ++b)
            for (std::int64_t c = 0; c < h; ++c) EXPECT_EQ(partials(b, c), 0);
        return std::vector{dweight};
      },
      [](DType, const std::vector<MatrixBuffer>&) {});
}
TEST(Norm, RanksThatShareTheRowsFindTheBitsOfOne) {
  for (auto kind : {Kind::layer, Kind::rms}) {
    for (std::int64_t ranks : {1, 2, 4}) check_cut(kind, 512, 37, ranks);
    check_cut(kind, 192, 7, 3);
    check_cut(kind, 192, 7, 3, 1);
    check_cut(kind, 65, 33, 1);
  }
}

// The variance is computed from centred values, so a large mean does not cancel it.
TEST(Norm, LargeMeanKeepsTheVariance) {
  Bench bench(1);
  MatrixBuffer x(DType::f32, 1, 64), w(DType::f32, 1, 64), b(DType::f32, 1, 64), y(DType::f32, 1, 64),
      mean(DType::f32, 1, 1), rstd(DType::f32, 1, 1);
  for (std::int64_t c = 0; c < 64; ++c) x.set(0, c, 4096 + (c % 2)), w.set(0, c, 1), b.set(0, c, 0);
  kernels::layer_norm_forward(*bench, {.x = x.view(),
                                       .weight = w.view(),
                                       .bias = b.view(),
                                       .epsilon = epsilon,
                                       .y = y.view(),
                                       .mean = mean.view(),
                                       .rstd = rstd.view()});
  EXPECT_NEAR(rstd(0, 0), 1 / std::sqrt(0.25 + epsilon), 1e-5);
}

TEST(Norm, ResidualFormsEqualTheirParts) {
  const std::uint64_t samples[] = {3, 8, 9, 2};
  const kernels::Dropout dropout{0.3, 11, 12, samples, 4, 3};
  sweep(
      [&](tensor::Exec& exec, DType t) {
        Problem p(t, 12, 33);
        const auto g = accumulation(t);
        MatrixBuffer sum(t, 12, 33, 1), y(t, 12, 33, 1), mean(g, 1, 12), rstd(g, 1, 12), z(t, 12, 33, 1),
            scale(g, 1, 12);
        kernels::layer_norm_residual_forward(exec, {.residual = p.dx.view(),
                                                    .branch = p.dy.view(),
                                                    .dropout = dropout,
                                                    .weight = p.weight.view(),
                                                    .bias = p.bias.view(),
                                                    .epsilon = epsilon,
                                                    .sum = sum.view(),
                                                    .y = y.view(),
                                                    .mean = mean.view(),
                                                    .rstd = rstd.view()});
        kernels::rms_norm_residual_forward(exec, {.residual = p.dx.view(),
                                                  .branch = p.dy.view(),
                                                  .dropout = dropout,
                                                  .weight = p.weight.view(),
                                                  .epsilon = epsilon,
                                                  .sum = sum.view(),
                                                  .y = z.view(),
                                                  .rstd = scale.view()});
        // The norm overwrites the residual, and the sum.
        MatrixBuffer over = p.dx, all = p.dx;
        kernels::layer_norm_residual_forward(exec, {.residual = over.view(),
                                                    .branch = p.dy.view(),
                                                    .dropout = dropout,
                                                    .weight = p.weight.view(),
                                                    .bias = p.bias.view(),
                                                    .epsilon = epsilon,
                                                    .sum = sum.view(),
                                                    .y = over.view(),
                                                    .mean = mean.view(),
                                                    .rstd = rstd.view()});
        kernels::layer_norm_residual_forward(exec, {.residual = all.view(),
                                                    .branch = p.dy.view(),
                                                    .dropout = dropout,
                                                    .weight = p.weight.view(),
                                                    .bias = p.bias.view(),
                                                    .epsilon = epsilon,
                                                    .sum = all.view(),
                                                    .y = all.view(),
                                                    .mean = mean.view(),
                                                    .rstd = rstd.view()});
        for (std::int64_t r = 0; r < y.rows; ++r)
          for (std::int64_t c = 0; c < y.cols; ++c) {
            EXPECT_EQ(over(r, c), y(r, c)) << "over the residual";
            EXPECT_EQ(all(r, c), y(r, c)) << "over both";
          }
        return std::vector{sum, y, z};
      },
      [&](DType t, const std::vector<MatrixBuffer>& out) {
        Bench bench(1);
        Problem p(t, 12, 33);
        const auto g = accumulation(t);
        MatrixBuffer sum(t, 12, 33, 1), y(t, 12, 33, 1), mean(g, 1, 12), rstd(g, 1, 12), z(t, 12, 33, 1);
        kernels::dropout_add(*bench, dropout, p.dx.view(), p.dy.view(), sum.view());
        kernels::layer_norm_forward(*bench, {.x = sum.view(),
                                             .weight = p.weight.view(),
                                             .bias = p.bias.view(),
                                             .epsilon = epsilon,
                                             .y = y.view(),
                                             .mean = mean.view(),
                                             .rstd = rstd.view()});
        kernels::rms_norm_forward(
            *bench,
            {.x = sum.view(), .weight = p.weight.view(), .epsilon = epsilon, .y = z.view(), .rstd = rstd.view()});
        ASSERT_EQ(out[0].bytes, sum.bytes);
        ASSERT_EQ(out[1].bytes, y.bytes);
        ASSERT_EQ(out[2].bytes, z.bytes);
      });
}

}  // namespace norm_test
}  // namespace trainyard::test
