// Compares the lookup and its gradient with scalar replays: the order of additions is part of the contract.
#include "kernels/embedding/embedding.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace embedding_test {

// b = 3, T = 5, so that rows repeat and some table rows are never used.
std::vector<std::int32_t> tokens() { return {4, 0, 4, 4, 9, 1, 9, 4, 0, 1, 4, 4, 4, 2, 10}; }
std::vector<std::int32_t> positions() { return {0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 0, 1, 2, 3, 4}; }

void forward(std::int64_t h, bool with_positions) {
  auto token = tokens(), position = positions();
  sweep(
      [&](tensor::Exec& exec, DType t) {
        MatrixBuffer table(t, 11, h, 2), places(t, 5, h, 1), out(t, 15, h, 3);
        table.fill(1), places.fill(2);
        kernels::embedding_forward(exec, vector_view(token, 3),
                                   with_positions ? vector_view(position, 3) : base::View{}, table.view(),
                                   with_positions ? places.view() : base::View{}, out.view());
        return std::vector{out};
      },
      [&](DType t, const std::vector<MatrixBuffer>& out) {
        MatrixBuffer table(t, 11, h), places(t, 5, h), want(t, 1, 1);
        table.fill(1), places.fill(2);
        for (std::int64_t r = 0; r < 15; ++r)
          for (std::int64_t c = 0; c < h; ++c) {
            double sum = table(token[static_cast<std::size_t>(r)], c) +
                         (with_positions ? places(position[static_cast<std::size_t>(r)], c) : 0);
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

TEST(Embedding, GradientAddsInTokenOrderAndOverwritesEveryRow) {
  auto token = tokens();
  for (std::int64_t h : {1, 64, 131})
    sweep(
        [&](tensor::Exec& exec, DType t) {
          MatrixBuffer dout(t, 15, h, 3), dtable(accumulation(t), 11, h, 2);
          dout.fill(5);
          kernels::embedding_backward(exec, vector_view(token, 3), 0, dout.view(), dtable.view());
          return std::vector{dtable};
        },
        [&](DType t, const std::vector<MatrixBuffer>& out) {
          MatrixBuffer dout(t, 15, h);
          dout.fill(5);
          for (std::int64_t row = 0; row < 11; ++row)
            for (std::int64_t c = 0; c < h; ++c) {
              double wide = 0;
              float narrow = 0;
              for (std::int64_t r = 0; r < 15; ++r)
                if (token[static_cast<std::size_t>(r)] == row)
                  wide += dout(r, c), narrow += static_cast<float>(dout(r, c));
              ASSERT_EQ(out[0](row, c), t == DType::f64 ? wide : static_cast<double>(narrow))
                  << base::name_of(t) << " row " << row << "," << c;
            }
        });
}

// Ranks hold neighbouring rows of the table. Their words, added as integers, equal the words of the whole table,
// including negative zeros. With positions the sums then have the bits of the whole lookup.
TEST(Embedding, RanksThatShareTheTableFindTheBitsOfOne) {
  auto token = tokens(), position = positions();
  for (std::int64_t h : {1, 7, 64, 131})
    sweep(
        [&](tensor::Exec& exec, DType t) {
          MatrixBuffer table(t, 12, h, 2), places(t, 5, h, 1), bare(t, 15, h, 3), summed(t, 15, h, 3);
          table.fill(1), places.fill(2);
          table.set(4, 0, -0.0), places.set(0, 0, -0.0);
          kernels::embedding_forward(exec, vector_view(token, 3), {}, table.view(), {}, bare.view());
          kernels::embedding_forward(exec, vector_view(token, 3), vector_view(position, 3), table.view(), places.view(),
                                     summed.view());
          EXPECT_TRUE(std::signbit(bare(0, 0)) && std::signbit(summed(0, 0)));
          for (std::int64_t ranks : {1, 2, 3, 4}) {
            const auto rows = 12 / ranks;
            MatrixBuffer all(t, 15, h, 3);
            for (std::int64_t r = 0; r < ranks; ++r) {
              MatrixBuffer own(t, 15, h, 3);
              kernels::embedding_lookup(exec, vector_view(token, 3), table.view().row_range(r * rows, rows), r * rows,
                                        12, own.view());
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
    EXPECT_THROW(kernels::embedding_forward(*bench, vector_view(token, 1), {}, table.view(), {}, out.view()),
                 base::InputError)
        << bad;
    for (std::int64_t first : {0, 2})  // of a table of 4 rows, two are here
      EXPECT_THROW(kernels::embedding_lookup(*bench, vector_view(token, 1), table.view().row_range(first, 2), first, 4,
                                             out.view()),
                   base::InputError)
          << bad;
    EXPECT_THROW(kernels::embedding_add(*bench, vector_view(token, 1), table.view(), out.view()), base::InputError)
        << bad;
  }
}

}  // namespace embedding_test
}  // namespace trainyard::test
