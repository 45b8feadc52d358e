// Compares the lookup and its gradient with scalar replays: the order of additions is part of the contract.
#include "kernels/embedding/embedding.h"
#include "tests/kernels/sweep.h"

#include <tuple>

namespace trainyard::test {
namespace embedding_test {

// b = 3, T = 5, so that rows repeat and some table rows are never used.
std::vector<std::int32_t> tokens() { return {4, 0, 4, 4, 9, 1, 9, 4, 0, 1, 4, 4, 4, 2, 10}; }
std::vector<std::int32_t> positions() { return {0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 0, 1, 2, 3, 4}; }

void forward(std::int64_t h, bool with_positions, double scale = 1) {
  auto token = tokens(), position = positions();
  sweep(
      [&](tensor::Exec& exec, DType t) {
        MatrixBuffer table(t, 11, h, 2), places(t, 5, h, 1), out(t, 15, h, 3);
        table.fill(1), places.fill(2);
        kernels::embedding_forward(exec, {.tokens = vector_view(token, 3),
                                          .positions = with_positions ? vector_view(position, 3) : base::View{},
                                          .table = table.view(),
                                          .position_table = with_positions ? places.view() : base::View{},
                                          .out = out.view(),
                                          .scale = scale});
        return std::vector{out};
      },
      [&](DType t, const std::vector<MatrixBuffer>& out) {
        MatrixBuffer table(t, 11, h), places(t, 5, h), want(t, 1, 1);
        table.fill(1), places.fill(2);
        want.set(0, 0, scale);
        const double factor = want(0, 0);  // rounded
        for (std::int64_t r = 0; r < 15; ++r)
          for (std::int64_t c = 0; c < h; ++c) {
            want.set(0, 0, table(token[static_cast<std::size_t>(r)], c) * factor);  // rounded before it is added to
            double sum = want(0, 0) + (with_positions ? places(position[static_cast<std::size_t>(r)], c) : 0);
            if (t != DType::f64) sum = static_cast<float>(sum);
            want.set(0, 0, sum);
            ASSERT_EQ(out[0](r, c), want(0, 0)) << base::name_of(t) << " " << r << "," << c;
          }
      });
}

TEST(Embedding, AddsTokenAndPosition) {
  for (std::int64_t h : {1, 7, 64, 131}) forward(h, true);
}
TEST(Embedding, CopiesTokensWithoutPositions) { forward(67, false); }
TEST(Embedding, ScalesTokens) {
  for (const double scale : {std::sqrt(32.0), 0.5}) {
    forward(67, false, scale);
    forward(300, true, scale);
  }
}

// With a scale, and with first rows that no index has.
TEST(Embedding, GradientAddsInTokenOrderAndOverwritesEveryRow) {
  auto token = tokens();
  for (const auto& [h, scale, unused] : {std::tuple{1, 1.0, 0}, {64, 1.0, 2}, {131, 0.3, 0}, {131, 1.0, 0}})
    sweep(
        [&, h = h, scale = scale, unused = unused](tensor::Exec& exec, DType t) {
          MatrixBuffer dout(t, 15, h, 3), dtable(accumulation(t), 11 + unused, h, 2);
          dout.fill(5);
          kernels::embedding_backward(exec, vector_view(token, 3), -unused, dout.view(), dtable.view(), scale);
          return std::vector{dtable};
        },
        [&, h = h, scale = scale, unused = unused](DType t, const std::vector<MatrixBuffer>& out) {
          MatrixBuffer dout(t, 15, h), rounded(t, 1, 1);
          dout.fill(5), rounded.set(0, 0, scale);
          const double factor = rounded(0, 0);
          for (std::int64_t row = -unused; row < 11; ++row)
            for (std::int64_t c = 0; c < h; ++c) {
              double wide = 0;
              float narrow = 0;
              for (std::int64_t r = 0; r < 15; ++r)
                if (token[static_cast<std::size_t>(r)] == row)
                  wide += dout(r, c) * factor, narrow += static_cast<float>(dout(r, c)) * static_cast<float>(factor);
              ASSERT_EQ(out[0](row + unused, c), t == DType::f64 ? wide : static_cast<double>(narrow))
                  << base::name_of(t) << " row " << row << "," << c;
            }
        });
}

// Ranks hold neighbouring rows of the table. Their words, added as integers, equal the words of the whole table,
// including negative zeros. With positions the sums then have the bits of the whole lookup.
TEST(Embedding, RanksThatShareTheTableFindTheBitsOfOne) {
  auto token = tokens(), position = positions();
  for (const auto& [h, scale] : {std::pair{1, 1.0}, {7, 0.7}, {64, 1.0}, {131, 5.5}})
    sweep(
        [&, h = h, scale = scale](tensor::Exec& exec, DType t) {
          MatrixBuffer table(t, 12, h, 2), places(t, 5, h, 1), bare(t, 15, h, 3), summed(t, 15, h, 3);
          table.fill(1), places.fill(2);
          table.set(4, 0, -0.0), places.set(0, 0, -0.0);
          kernels::embedding_forward(
              exec, {.tokens = vector_view(token, 3), .table = table.view(), .out = bare.view(), .scale = scale});
          kernels::embedding_forward(exec, {.tokens = vector_view(token, 3),
                                            .positions = vector_view(position, 3),
                                            .table = table.view(),
                                            .position_table = places.view(),
                                            .out = summed.view(),
                                            .scale = scale});
          EXPECT_TRUE(std::signbit(bare(0, 0)) && std::signbit(summed(0, 0)));
          for (std::int64_t ranks : {1, 2, 3, 4}) {
            const auto rows = 12 / ranks;
            MatrixBuffer all(t, 15, h, 3);
            for (std::int64_t r = 0; r < ranks; ++r) {
              MatrixBuffer own(t, 15, h, 3);
              kernels::embedding_lookup(exec, {.tokens = vector_view(token, 3),
                                               .table = table.view().row_range(r * rows, rows),
                                               .first_row = r * rows,
                                               .all_rows = 12,
                                               .out = own.view(),
                                               .scale = scale});
              const auto size = static_cast<std::size_t>(base::size_of(t));
              for (std::size_t i = 0; i < 15; ++i) {
                const bool here = token[i] / rows == r;
                const auto at = i * static_cast<std::size_t>(own.pitch) * size,
                           end = at + static_cast<std::size_t>(h) * size;
                for (auto b = at; b < end; ++b) {
                  EXPECT_TRUE(here || own.bytes[b] == 0) << ranks << " ranks, rank " << r << " row " << i;
                  if (here) all.bytes[b] = own.bytes[b];
                }
              }
              EXPECT_TRUE(own.gap_untouched());
            }
            EXPECT_EQ(all.bytes, bare.bytes) << base::name_of(t) << " " << ranks << " ranks";
            kernels::embedding_add(exec, vector_view(position, 3), places.view(), all.view());
            EXPECT_EQ(all.bytes, summed.bytes) << base::name_of(t) << " " << ranks << " ranks";
          }
          return std::vector{bare, summed};
        },
        [](DType, const std::vector<MatrixBuffer>&) {});
}

TEST(Embedding, GradientOfRowsIsThatOfTheWholeTable) {
  auto token = tokens();
  for (std::int64_t h : {1, 64, 131})
    sweep(
        [&](tensor::Exec& exec, DType t) {
          MatrixBuffer dout(t, 15, h, 3), want(accumulation(t), 12, h, 2);
          dout.fill(5);
          kernels::embedding_backward(exec, vector_view(token, 3), 0, dout.view(), want.view());
          for (std::int64_t ranks : {2, 3, 4}) {
            MatrixBuffer got(accumulation(t), 12, h, 2);
            for (std::int64_t r = 0; r < ranks; ++r)
              kernels::embedding_backward(exec, vector_view(token, 3), r * (12 / ranks), dout.view(),
                                          got.view().row_range(r * (12 / ranks), 12 / ranks));
            EXPECT_EQ(got.bytes, want.bytes) << base::name_of(t) << " " << ranks << " ranks";
          }
          return std::vector{want};
        },
        [](DType, const std::vector<MatrixBuffer>&) {});
}

TEST(Embedding, RefusesIndicesOutsideTheTable) {
  Bench bench(1);
  MatrixBuffer table(DType::f32, 4, 3), out(DType::f32, 2, 3);
  table.fill(1);
  for (std::int32_t bad : {-1, 4}) {
    std::vector<std::int32_t> token{0, bad};
    EXPECT_THROW(
        kernels::embedding_forward(*bench, {.tokens = vector_view(token, 1), .table = table.view(), .out = out.view()}),
        base::InputError)
        << bad;
    for (std::int64_t first : {0, 2})  // of a table of 4 rows, two are here
      EXPECT_THROW(kernels::embedding_lookup(*bench, {.tokens = vector_view(token, 1),
                                                      .table = table.view().row_range(first, 2),
                                                      .first_row = first,
                                                      .all_rows = 4,
                                                      .out = out.view()}),
                   base::InputError)
          << bad;
    EXPECT_THROW(kernels::embedding_add(*bench, vector_view(token, 1), table.view(), out.view()), base::InputError)
        << bad;
  }
}

}  // namespace embedding_test
}  // namespace trainyard::test
