// Compares GPU kernels that work on the rows of tokens with their CPU kernels. Part of gpu_test.cpp's program.
#include "kernels/cached_attention/cached_attention.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/head_norm/head_norm.h"
#include "kernels/norm/norm.h"
#include "kernels/rotary/rotary.h"
#include "tests/kernels/gpu_compare.h"

#include <vector>

namespace trainyard::test {
namespace {

TEST(Gpu, DropoutGivesTheBitsOfTheCpu) {
  for (const std::int64_t n : {21, 24})
    for (double p : {0.0, 0.3})
      compare(
          [p, n](Place& place, DType t) {
            const std::int64_t gap = n == 24 ? 4 : 1;
            MatrixBuffer x(t, 6, n, gap), r(t, 6, n), y(t, 6, n, 2 * gap), z(t, 6, n);
            x.fill(1), r.fill(2);
            std::vector<std::uint64_t> samples{5, 99};
            kernels::Dropout d{p, 3, 77, place(samples, {2}).ptr<std::uint64_t>(), 3};
            const auto vx = place(x);
            kernels::dropout_forward(place.exec(), d, vx, place(y));
            kernels::dropout_add(place.exec(), d, place(r), vx, place(z));
            place.fetch();
            return Outputs{y, z};
          },
          Same::bits, all);
}

TEST(Gpu, Rotary) {
  compare(
      [](Place& place, DType t) {
        MatrixBuffer x(t, 14, 24, 1), y(t, 14, 24);
        x.fill(1), y.fill(2);
        std::vector<std::int32_t> positions{0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 4, 5, 600};
        const auto p = place(positions, {2, 7});
        kernels::rotary_forward(place.exec(), place(x), p, {.heads = 3, .head_dim = 8});
        kernels::rotary_backward(place.exec(), place(y), p, {.heads = 3, .head_dim = 8, .base = 500});
        MatrixBuffer z(t, 14, 24), w(t, 14, 24);
        z.fill(3), w.fill(4);
        const plan::RotaryConfig llama{.scaling = plan::RotaryScaling::llama3, .factor = 8, .original = 64},
            yarn{.scaling = plan::RotaryScaling::yarn, .factor = 4, .original = 64, .fraction = 0.5};
        kernels::rotary_forward(place.exec(), place(z), p, {.heads = 3, .head_dim = 8, .config = llama});
        kernels::rotary_backward(place.exec(), place(w), p, {.heads = 3, .head_dim = 8, .config = yarn});
        place.fetch();
        return Outputs{x, y, z, w};
      },
      Same::tolerance, all);
}

// Heads that share their weights, and a width that is one group; the last results lie where they were read.
TEST(Gpu, HeadNorms) {
  for (const bool whole : {false, true})
    compare(
        [whole](Place& place, DType t) {
          const auto g = accumulation(t);
          const std::int64_t n = 70, heads = 4, dim = 24, cols = heads * dim, w = whole ? cols : dim;
          MatrixBuffer x(t, n, cols, 2), dy(t, n, cols), weight(t, 1, w), squares(g, heads, n, 1), dots(g, heads, n),
              y(t, n, cols, 4), dweight(g, whole ? 1 : 2, w, 2), groups(g, whole ? 1 : heads, n),
              along(g, whole ? 1 : heads, n);
          x.fill(1), dy.fill(2), weight.fill(3), along.fill(5);
          for (std::int64_t r = 0; r < n; ++r)
            for (std::int64_t h = 0; h < groups.rows; ++h) groups.set(h, r, 3 + static_cast<double>((r + h) % 5));
          auto& e = place.exec();
          const auto vx = place(x), vdy = place(dy), vw = place(weight).reshaped({w});
          kernels::head_norm_sums(e, {.x = vx, .out = place(squares)});
          kernels::head_norm_sums(e, {.x = vx, .dy = vdy, .weight = vw, .offset = 1, .out = place(dots)});
          const kernels::HeadNorm norm{
              .weight = vw, .squares = place(groups), .width = w, .epsilon = 1e-3, .offset = 1};
          kernels::head_norm_forward(e, norm, vx, place(y));
          kernels::head_norm_backward(
              e, {.norm = norm, .dy = vdy, .x = vx, .dots = place(along), .dx = vdy, .dweight = place(dweight)});
          place.fetch();
          return Outputs{squares, dots, y, dy, dweight};
        },
        Same::tolerance, all);
}

TEST(Gpu, Embedding) {
  for (const std::int64_t h : {19, 24})
    compare(
        [h](Place& place, DType t) {
          const std::int64_t n = 600, gap = h == 24 ? 8 : 1;  // more than a block of indices, some very frequent
          MatrixBuffer table(t, 40, h, gap), positions(t, 300, h), out(t, n, h, 2 * gap), dout(t, n, h),
              dtable(accumulation(t), 40, h);
          table.fill(1), positions.fill(2), dout.fill(3);
          std::vector<std::int32_t> tokens, at;
          for (std::int64_t i = 0; i < n; ++i)
            tokens.push_back(static_cast<std::int32_t>(i % 3 == 0 ? 7 : i * i % 39)),
                at.push_back(static_cast<std::int32_t>(i % 300));
          const auto v = place(tokens, {2, n / 2});
          kernels::embedding_forward(place.exec(), {.tokens = v,
                                                    .positions = place(at, {2, n / 2}),
                                                    .table = place(table),
                                                    .position_table = place(positions),
                                                    .out = place(out),
                                                    .scale = h % 2 == 0 ? 1 : 0.5});
          kernels::embedding_backward(place.exec(), v, h % 2 == 0 ? 0 : -2, place(dout), place(dtable),
                                      h % 2 == 0 ? 1 : 0.5);
          place.fetch();
          return Outputs{out, dtable};
        },
        Same::bits, all);
}

// Rows without whole groups of 16 bytes, rows that lanes hold in four or eight groups, and longer rows of either width.
TEST(Gpu, Norms) {
  for (const std::int64_t h : {301, 304, 504, 1000, 1608, 2056})
    compare(
        [h](Place& place, DType t) {
          const std::int64_t n = 70, gap = h % 8 == 0 ? 8 : 1;
          const auto g = accumulation(t);
          const double offset = h % 8 == 0 ? 1 : 0;
          MatrixBuffer x(t, n, h, 2 * gap), w(t, 1, h), b(t, 1, h), y(t, n, h), z(t, n, h), mean(g, 1, n),
              rstd(g, 1, n), rms(g, 1, n);
          MatrixBuffer dy(t, n, h), dx(t, n, h, gap), dw(g, 1, h), db(g, 1, h), dx2(t, n, h), dw2(g, 1, h);
          x.fill(1), w.fill(2), b.fill(3), dy.fill(4), dx.fill(5);
          const auto vx = place(x), vw = place(w), vmean = place(mean), vrstd = place(rstd), vrms = place(rms),
                     vdy = place(dy);
          kernels::layer_norm_forward(place.exec(), {.x = vx,
                                                     .weight = vw,
                                                     .bias = place(b),
                                                     .epsilon = 1e-5,
                                                     .y = place(y),
                                                     .mean = vmean,
                                                     .rstd = vrstd,
                                                     .offset = offset});
          kernels::rms_norm_forward(
              place.exec(), {.x = vx, .weight = vw, .epsilon = 1e-5, .y = place(z), .rstd = vrms, .offset = offset});
          kernels::layer_norm_backward(place.exec(), {.dy = vdy,
                                                      .x = vx,
                                                      .weight = vw,
                                                      .mean = vmean,
                                                      .rstd = vrstd,
                                                      .dx = place(dx),
                                                      .dweight = place(dw),
                                                      .dbias = place(db),
                                                      .into = kernels::Into::add,
                                                      .offset = offset});
          kernels::rms_norm_backward(place.exec(), {.dy = vdy,
                                                    .x = vx,
                                                    .weight = vw,
                                                    .rstd = vrms,
                                                    .dx = place(dx2),
                                                    .dweight = place(dw2),
                                                    .into = kernels::Into::overwrite,
                                                    .offset = offset});
          place.fetch();
          return Outputs{y, z, mean, rstd, rms, dx, dw, db, dx2, dw2};
        },
        Same::tolerance, all);
}

// In one pass: the sum, its copy and the norm. Rows with and without whole groups of 16 bytes.
TEST(Gpu, NormsOfSums) {
  for (const std::int64_t h : {304, 37, 1608, 2056})
    for (double p : {0.0, 0.3})
      compare(
          [h, p](Place& place, DType t) {
            const std::int64_t n = 30;
            const auto g = accumulation(t);
            MatrixBuffer residual(t, n, h, 8), branch(t, n, h), sum(t, n, h), w(t, 1, h), b(t, 1, h), y(t, n, h, 16),
                mean(g, 1, n), rstd(g, 1, n);
            MatrixBuffer stream(t, n, h), z(t, n, h), scale(g, 1, n), over(t, n, h), all_in(t, n, h);
            over.fill(1), all_in.fill(1);
            residual.fill(1), branch.fill(2), w.fill(3), b.fill(4), stream.fill(5);
            std::vector<std::uint64_t> samples{5, 99, 7};
            kernels::Dropout d{p, 3, 77, place.raw(samples), 10};
            const auto vb = place(branch), vw = place(w), vs = place(stream);
            kernels::layer_norm_residual_forward(place.exec(), {.residual = place(residual),
                                                                .branch = vb,
                                                                .dropout = d,
                                                                .weight = vw,
                                                                .bias = place(b),
                                                                .epsilon = 1e-5,
                                                                .sum = place(sum),
                                                                .y = place(y),
                                                                .mean = place(mean),
                                                                .rstd = place(rstd)});
            kernels::rms_norm_residual_forward(place.exec(), {.residual = vs,
                                                              .branch = vb,
                                                              .dropout = d,
                                                              .weight = vw,
                                                              .epsilon = 1e-5,
                                                              .sum = vs,
                                                              .y = place(z),
                                                              .rstd = place(scale)});  // in place
            const auto vo = place(over), va = place(all_in);  // the norm overwrites the residual, and the sum
            kernels::layer_norm_residual_forward(place.exec(), {.residual = vo,
                                                                .branch = vb,
                                                                .dropout = d,
                                                                .weight = vw,
                                                                .bias = place(b),
                                                                .epsilon = 1e-5,
                                                                .sum = place(sum),
                                                                .y = vo,
                                                                .mean = place(mean),
                                                                .rstd = place(rstd)});
            kernels::layer_norm_residual_forward(place.exec(), {.residual = va,
                                                                .branch = vb,
                                                                .dropout = d,
                                                                .weight = vw,
                                                                .bias = place(b),
                                                                .epsilon = 1e-5,
                                                                .sum = va,
                                                                .y = va,
                                                                .mean = place(mean),
                                                                .rstd = place(rstd)});
            place.fetch();
            return Outputs{sum, y, mean, rstd, stream, z, scale, over, all_in};
          },
          Same::tolerance, all);
}

TEST(Gpu, AttentionOfACache) {
  compare(
      [](Place& place, DType t) {
        const std::int64_t n = 50, heads = 4, kv = 2, d = 24;
        MatrixBuffer q(t, 1, heads * d), k(t, n, kv * d, 1), v(t, n, kv * d), out(t, 1, heads * d),
            biased(t, 1, heads * d), bias(accumulation(t), heads, n);
        q.fill(1), k.fill(2), v.fill(3), bias.fill(4);
        kernels::cached_attention(place.exec(), {.q = place(q),
                                                 .k = place(k),
                                                 .v = place(v),
                                                 .heads = heads,
                                                 .kv_heads = kv,
                                                 .scale = 0.4,
                                                 .out = place(out)});
        kernels::cached_attention(place.exec(), {.q = place(q),
                                                 .k = place(k),
                                                 .v = place(v),
                                                 .heads = heads,
                                                 .kv_heads = kv,
                                                 .scale = 0.4,
                                                 .out = place(biased),
                                                 .bias = place(bias)});
        place.fetch();
        return Outputs{out, biased};
      },
      Same::tolerance, all);
}

}  // namespace
}  // namespace trainyard::test
