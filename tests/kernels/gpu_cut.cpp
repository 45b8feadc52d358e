// Compares GPU kernels for sharded vocabularies, tables and rows with their CPU kernels, and with the bits of one rank
// on the same device. Part of gpu_test.cpp's program.
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/norm/norm.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/kernels/gpu_compare.h"

#include <memory>
#include <vector>

namespace trainyard::test {
namespace {

// Slices that end inside the vocabulary or lie behind it. Lanes with and without whole groups of four columns. A number
// of lanes that is no power of two.
struct Vocabulary {
  std::int64_t columns, stored, lanes;
  std::vector<std::int64_t> ranks;
  double softcap = 0, smoothing = 0;
};
TEST(GpuCut, CrossEntropyGivesTheBitsOfOneRank) {
  const std::vector<Vocabulary> cuts{
      {257, 384, 1, {1}},        {257, 384, 4, {1, 2, 4}},      {41, 48, 16, {4}},          {41, 48, 6, {2}},
      {257, 384, 4, {2, 4}, 30}, {257, 384, 4, {2, 4}, 0, 0.1}, {41, 48, 6, {1, 2}, 5, 0.3}};
  for (const auto& s : cuts)
    compare(
        [s](Place& place, DType t) {
          const std::int64_t n = 4;
          const auto g = accumulation(t);
          MatrixBuffer logits(g, n, s.stored, 4), dlogits(t, n, s.stored, 8), losses(DType::f64, 1, n);
          logits.fill(1);
          for (std::int64_t i = 0; i < n; ++i) logits.set(i, 5, 9.0 * i), logits.set(i, s.columns - 1, 7.0 * i - 20);
          for (std::int64_t c = 0; c < s.columns; ++c) logits.set(1, c, logits(1, c) - 1e4);
          std::vector<std::int32_t> targets{0, static_cast<std::int32_t>(s.columns - 1), 3, 25};
          std::vector<std::uint8_t> weights{1, 1, 0, 1};
          const auto vt = place(targets, {n}), vw = place(weights, {n}), vl = place(logits);
          kernels::cross_entropy_chunk(place.exec(), {.logits = vl,
                                                      .targets = vt,
                                                      .weights = vw,
                                                      .vocabulary = s.columns,
                                                      .lanes = s.lanes,
                                                      .losses = place(losses),
                                                      .dlogits = place(dlogits),
                                                      .loss_scale = 4,
                                                      .softcap = s.softcap,
                                                      .label_smoothing = s.smoothing});
          std::vector<std::unique_ptr<MatrixBuffer>> results, kept;  // a Place needs them at fixed addresses
          for (auto ranks : s.ranks) {
            const auto width = s.stored / ranks, own = s.lanes / ranks,
                       pieces = (s.lanes & (s.lanes - 1)) == 0 ? std::int64_t{1} : own;
            kept.push_back(std::make_unique<MatrixBuffer>(g, ranks, pieces * (s.smoothing > 0 ? 4 : 3) * n));
            const auto vs = place(*kept.back());
            auto& d = *results.emplace_back(std::make_unique<MatrixBuffer>(t, n, s.stored, 8));
            auto& l = *results.emplace_back(std::make_unique<MatrixBuffer>(DType::f64, ranks, n));
            const auto vd = place(d), vo = place(l);
            for (std::int64_t r = 0; r < ranks; ++r)
              kernels::cross_entropy_statistics(place.exec(), {.logits = vl.columns(r * width, width),
                                                               .targets = vt,
                                                               .weights = vw,
                                                               .first_column = r * width,
                                                               .vocabulary = s.columns,
                                                               .lanes = own,
                                                               .statistics = vs.row_range(r, 1),
                                                               .softcap = s.softcap,
                                                               .label_smoothing = s.smoothing});
            for (std::int64_t r = 0; r < ranks; ++r)
              kernels::cross_entropy_finish(place.exec(), {.logits = vl.columns(r * width, width),
                                                           .targets = vt,
                                                           .weights = vw,
                                                           .statistics = vs,
                                                           .first_column = r * width,
                                                           .vocabulary = s.columns,
                                                           .losses = vo.row_range(r, 1).reshaped({n}),
                                                           .dlogits = vd.columns(r * width, width),
                                                           .loss_scale = 4,
                                                           .softcap = s.softcap,
                                                           .label_smoothing = s.smoothing});
          }
          place.fetch();
          for (std::size_t i = 0; i < results.size(); i += 2) {
            const auto& l = *results[i + 1];
            EXPECT_EQ(results[i]->bytes, dlogits.bytes) << s.lanes << " lanes on " << l.rows << " ranks";
            for (std::int64_t rank = 0; rank < l.rows; ++rank)
              for (std::int64_t r = 0; r < n; ++r)
                EXPECT_EQ(l(rank, r), losses(0, r)) << s.lanes << " lanes on " << l.rows << " ranks";
          }
          return Outputs{dlogits, losses};
        },
        Same::tolerance, s.lanes == 4 ? all : std::vector{DType::bf16});
}

TEST(GpuCut, EmbeddingsOfRowsGiveTheBitsOfTheCpu) {
  for (const std::int64_t h : {19, 24})
    compare(
        [h](Place& place, DType t) {
          const std::int64_t n = 60, gap = h == 24 ? 8 : 1, ranks = 4, rows = 10;
          MatrixBuffer table(t, ranks * rows, h, gap), positions(t, 30, h), sum(t, n, h, 2 * gap), dout(t, n, h),
              dtable(accumulation(t), ranks * rows, h);
          table.fill(1), positions.fill(2), dout.fill(3), sum.fill(4);
          table.set(7, 0, -0.0);
          std::vector<std::int32_t> tokens, at;
          for (std::int64_t i = 0; i < n; ++i)
            tokens.push_back(static_cast<std::int32_t>(i % 3 == 0 ? 7 : i * i % 39)),
                at.push_back(static_cast<std::int32_t>(i % 30));
          std::vector<MatrixBuffer> found(ranks, MatrixBuffer(t, n, h, gap));
          const auto v = place(tokens, {2, n / 2}), vt = place(table), vd = place(dtable), vo = place(dout);
          for (std::int64_t r = 0; r < ranks; ++r) {
            kernels::embedding_lookup(place.exec(), {.tokens = v,
                                                     .table = vt.row_range(r * rows, rows),
                                                     .first_row = r * rows,
                                                     .all_rows = ranks * rows,
                                                     .out = place(found[static_cast<std::size_t>(r)])});
            kernels::embedding_backward(place.exec(), v, r * rows, vo, vd.row_range(r * rows, rows));
          }
          kernels::embedding_add(place.exec(), place(at, {2, n / 2}), place(positions), place(sum));
          place.fetch();
          Outputs out{sum, dtable};
          for (std::int64_t r = 0; r < ranks; ++r) {
            const auto& own = found[static_cast<std::size_t>(r)];
            for (std::int64_t i = 0; i < n; ++i)
              for (std::int64_t c = 0; c < h; ++c) {
                const auto token = tokens[static_cast<std::size_t>(i)];
                const double want = token / rows == r ? table(token, c) : 0;
                EXPECT_EQ(own(i, c), want) << "rank " << r << " token " << token;
                EXPECT_EQ(std::signbit(own(i, c)), std::signbit(want)) << "rank " << r << " token " << token;
              }
            out.push_back(own);
          }
          return out;
        },
        Same::bits, all);
}

TEST(GpuCut, NormsOfRowsGiveTheBitsOfOneRank) {
  for (const std::int64_t h : {37, 40})
    compare(
        [h](Place& place, DType t) {
          const std::int64_t n = 256, ranks = 2, rows = n / ranks, partial_rows = plan::norm_partial_rows(rows);
          const auto g = accumulation(t);
          MatrixBuffer x(t, n, h), w(t, 1, h), mean(g, 1, n), rstd(g, 1, n), rms(g, 1, n), dy(t, n, h, 8);
          MatrixBuffer dx(t, n, h), dw(g, 1, h), db(g, 1, h), dx2(t, n, h), dw2(g, 1, h);
          MatrixBuffer cut(t, n, h), partials(g, ranks * partial_rows, h), cw(g, 1, h), cb(g, 1, h), cut2(t, n, h),
              partials2(g, ranks * partial_rows, h), cw2(g, 1, h);
          x.fill(1), w.fill(2), mean.fill(3), dy.fill(4), dx.fill(5), cut.fill(5), rstd.fill(6), rms.fill(7);
          const auto vx = place(x), vw = place(w), vmean = place(mean), vrstd = place(rstd), vrms = place(rms),
                     vdy = place(dy), vcut = place(cut), vcut2 = place(cut2), vp = place(partials),
                     vp2 = place(partials2);
          kernels::layer_norm_backward(place.exec(), {.dy = vdy,
                                                      .x = vx,
                                                      .weight = vw,
                                                      .mean = vmean,
                                                      .rstd = vrstd,
                                                      .dx = place(dx),
                                                      .dweight = place(dw),
                                                      .dbias = place(db)});
          kernels::rms_norm_backward(place.exec(), {.dy = vdy,
                                                    .x = vx,
                                                    .weight = vw,
                                                    .rstd = vrms,
                                                    .dx = place(dx2),
                                                    .dweight = place(dw2),
                                                    .into = kernels::Into::overwrite});
          for (std::int64_t r = 0; r < ranks; ++r) {
            const auto part = [&](const base::View& v) { return v.row_range(r * rows, rows); };
            kernels::layer_norm_backward_rows(place.exec(), {.dy = part(vdy),
                                                             .x = part(vx),
                                                             .weight = vw,
                                                             .mean = vmean.columns(r * rows, rows),
                                                             .rstd = vrstd.columns(r * rows, rows),
                                                             .dx = part(vcut),
                                                             .partials = vp.row_range(r * partial_rows, partial_rows)});
            kernels::rms_norm_backward_rows(place.exec(), {.dy = part(vdy),
                                                           .x = part(vx),
                                                           .weight = vw,
                                                           .rstd = vrms.columns(r * rows, rows),
                                                           .dx = part(vcut2),
                                                           .partials = vp2.row_range(r * partial_rows, partial_rows),
                                                           .into = kernels::Into::overwrite});
          }
          kernels::norm_partial_sums(place.exec(), vp, ranks, place(cw), place(cb));
          kernels::norm_partial_sums(place.exec(), vp2, ranks, place(cw2), {});
          place.fetch();
          EXPECT_EQ(cut.bytes, dx.bytes);
          EXPECT_EQ(cw.bytes, dw.bytes);
          EXPECT_EQ(cb.bytes, db.bytes);
          EXPECT_EQ(cut2.bytes, dx2.bytes);
          EXPECT_EQ(cw2.bytes, dw2.bytes);
          return Outputs{cut, cw, cb, cut2, cw2, partials, partials2};
        },
        Same::tolerance, h == 37 ? all : std::vector{DType::bf16});
}

// Dropout of a range of rows that begins inside a sequence, alone and in one pass with the sum and its norm.
TEST(GpuCut, DropoutOfRowsGivesTheBitsOfTheWhole) {
  const std::int64_t cuts[][2] = {{37, 7}, {48, 21}};
  for (const auto& [columns, from] : cuts)
    compare(
        [h = columns, first = from](Place& place, DType t) {
          const std::int64_t n = 30;
          const auto g = accumulation(t);
          MatrixBuffer x(t, n, h, 8), residual(t, n, h), w(t, 1, h), b(t, 1, h);
          MatrixBuffer dropped(t, n, h), added(t, n, h), sum(t, n, h), y(t, n, h), mean(g, 1, n), rstd(g, 1, n);
          MatrixBuffer dropped2(t, n, h), added2(t, n, h), sum2(t, n, h), y2(t, n, h), mean2(g, 1, n), rstd2(g, 1, n);
          x.fill(1), residual.fill(2), w.fill(3), b.fill(4);
          std::vector<std::uint64_t> samples{5, 99, 7};
          kernels::Dropout d{0.3, 3, 77, place.raw(samples), 10};
          const auto vx = place(x), vr = place(residual), vw = place(w), vb = place(b);
          const auto run = [&](const kernels::Dropout& how, std::int64_t row, MatrixBuffer* const(&out)[6]) {
            base::View to[6];
            for (int i = 0; i < 6; ++i) {
              const auto v = place(*out[i]);
              to[i] = i < 4 ? v.row_range(row, n - row) : v.columns(row, n - row);
            }
            const auto in = vx.row_range(row, n - row), base = vr.row_range(row, n - row);
            kernels::dropout_forward(place.exec(), how, in, to[0]);
            kernels::dropout_add(place.exec(), how, base, in, to[1]);
            kernels::layer_norm_residual_forward(place.exec(), {.residual = base,
                                                                .branch = in,
                                                                .dropout = how,
                                                                .weight = vw,
                                                                .bias = vb,
                                                                .epsilon = 1e-5,
                                                                .sum = to[2],
                                                                .y = to[3],
                                                                .mean = to[4],
                                                                .rstd = to[5]});
          };
          run(d, 0, {&dropped, &added, &sum, &y, &mean, &rstd});
          d.first_row = first;
          run(d, first, {&dropped2, &added2, &sum2, &y2, &mean2, &rstd2});
          place.fetch();
          const MatrixBuffer* const pairs[][2] = {{&dropped, &dropped2}, {&added, &added2}, {&sum, &sum2}, {&y, &y2}};
          for (const auto& [whole, part] : pairs)
            for (auto r = first; r < n; ++r)
              for (std::int64_t c = 0; c < h; ++c) EXPECT_EQ((*part)(r, c), (*whole)(r, c)) << r << "," << c;
          return Outputs{dropped, added, sum, y};
        },
        Same::tolerance, all);
}

}  // namespace
}  // namespace trainyard::test
