// Compares products in lanes and the sum of lanes on a GPU with the CPU. Scratch is as planned, and ranks that divide
// the lanes get the same bits.
#include "kernels/lane_sum/lane_sum.h"
#include "kernels/linear/linear.h"
#include "libtrain/plan/blocks/scratch.h"
#include "tests/gpu_main.h"
#include "tests/kernels/gpu_compare.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace {

using kernels::LinearPart;
using kernels::Neighbours;

constexpr std::int64_t m = 40, n = 24;

TEST(GpuLanes, SumGivesTheBitsOfTheCpu) {
  for (const std::int64_t rows : {1, 2, 3, 4, 8, 16})
    compare(
        [rows](Place& place, DType t) {
          const auto g = accumulation(t);
          MatrixBuffer pieces(g, rows, m * n, 4), bias(t, 1, n), out(t, m, n, 8), plain(t, 1, m * n), wide(g, 1, m * n);
          pieces.fill(1), bias.fill(2);
          const auto v = place(pieces), b = place(bias);
          kernels::lane_sum(place.exec(), v, b, 0, place(out));
          kernels::lane_sum(place.exec(), v, {}, 0, place(plain));
          kernels::lane_sum(place.exec(), v, b, 7, place(wide));
          place.fetch();
          return Outputs{out, plain, wide};
        },
        Same::bits, all);
}

TEST(GpuLanes, Forward) {
  for (const std::int64_t lanes : {1, 3, 4})
    compare(
        [lanes](Place& place, DType t) {
          MatrixBuffer x(t, m, 96), w(t, n, 96), bias(t, 1, n), y(t, m, n, 8), partial(accumulation(t), m, n);
          x.fill(1), w.fill(2), bias.fill(3);
          const auto vx = place(x), vw = place(w);
          kernels::linear_forward_lanes(place.exec(), vx, vw, place(bias), lanes, place(y));
          kernels::linear_forward_lanes(place.exec(), vx, vw, {}, lanes, place(partial));
          place.fetch();
          return Outputs{y, partial};
        },
        Same::tolerance, all);
}

// Three parts of unequal width: as columns of one tensor beside weights that follow one another, and apart.
struct Parts {
  static constexpr std::int64_t widths[] = {64, 32, 32}, total = 128;
  MatrixBuffer dy, w, other;
  explicit Parts(DType t) : dy(t, m, total, 8), w(t, total, n), other(t, 64, n) {
    dy.fill(1), w.fill(2), other.fill(3);
  }
  // What rank r of `ranks` has. With a gap the first weight lies elsewhere.
  std::vector<LinearPart> operator()(Place& place, bool gap, std::int64_t r = 0, std::int64_t ranks = 1) {
    const auto vdy = place(dy), vw = place(w), first = gap ? place(other) : vw;
    std::vector<LinearPart> out;
    std::int64_t at = 0;
    for (auto width : widths) {
      const auto k = width / ranks;
      out.push_back({vdy.columns(at + r * k, k), (at == 0 ? first : vw).row_range(at + r * k, k)});
      at += width;
    }
    return out;
  }
};

TEST(GpuLanes, InputGradient) {
  for (const std::int64_t lanes : {1, 2, 4})
    for (const bool gap : {false, true})
      compare(
          [lanes, gap](Place& place, DType t) {
            Parts parts(t);
            MatrixBuffer dx(t, m, n, 8), partial(accumulation(t), m, n);
            const auto v = parts(place, gap);
            kernels::linear_backward_input_lanes(place.exec(), v, lanes, place(dx));
            kernels::linear_backward_input_lanes(place.exec(), v, lanes, place(partial), Neighbours::apart);
            place.fetch();
            return Outputs{dx, partial};
          },
          Same::tolerance, all);
}

TEST(GpuLanes, ScratchIsAsPlanned) {
  const struct {
    DType in, out;
    std::int64_t lanes;
    bool gap;
    Neighbours neighbours;
    std::int64_t products;
  } cases[] = {{DType::bf16, DType::bf16, 1, false, Neighbours::together, 1},
               {DType::bf16, DType::bf16, 1, false, Neighbours::apart, 3},
               {DType::bf16, DType::bf16, 1, true, Neighbours::together, 2},
               {DType::bf16, DType::f32, 1, true, Neighbours::together, 2},
               {DType::f16, DType::f16, 1, true, Neighbours::together, 2},
               {DType::f16, DType::f32, 1, false, Neighbours::apart, 3},
               {DType::f32, DType::f32, 1, true, Neighbours::together, 2},
               {DType::f64, DType::f64, 4, true, Neighbours::together, 3},
               {DType::bf16, DType::bf16, 4, false, Neighbours::apart, 3}};
  for (const auto& c : cases) {
    Place place(Place::Kind::gpu);
    Parts parts(c.in);
    MatrixBuffer dx(c.out, m, n);
    const auto v = parts(place, c.gap);
    kernels::linear_backward_input_lanes(place.exec(), v, c.lanes, place(dx), c.neighbours);
    place.exec().synchronize();
    EXPECT_EQ(place.exec().scratch().peak_bytes(),
              plan::gpu_lane_gemm_scratch_bytes(m, n, c.products, c.lanes, base::is_narrow(c.out),
                                                base::size_of(accumulation(c.in))));
  }
}

TEST(GpuLanes, OneLaneIsTheProductWithoutLanes) {
  for (auto t : all) {
    Place place(Place::Kind::gpu);
    Parts parts(t);
    MatrixBuffer bias(t, 1, m), x(t, m, n), dx(t, m, n), plain_dx(t, m, n), y(t, m, m), plain_y(t, m, m);
    bias.fill(5), x.fill(6);
    const auto v = parts(place, false);
    const auto vx = place(x), vb = place(bias), vw = place(parts.w).row_range(0, m);
    kernels::linear_backward_input_lanes(place.exec(), v, 1, place(dx));
    kernels::linear_backward_input(place.exec(), place(parts.dy), place(parts.w), place(plain_dx));
    kernels::linear_forward_lanes(place.exec(), vx, vw, vb, 1, place(y));
    kernels::linear_forward(place.exec(), vx, vw, vb, place(plain_y));
    place.fetch();
    EXPECT_EQ(dx.bytes, plain_dx.bytes);
    EXPECT_EQ(y.bytes, plain_y.bytes);
  }
}

// A rank with one lane may not join parts that are neighbours in memory, as a rank with all lanes does not.
TEST(GpuLanes, RanksThatShareTheLanesHaveTheSameBits) {
  for (auto t : all)
    for (const std::int64_t ranks : {2, 4}) {
      const std::int64_t lanes = 4;
      Place place(Place::Kind::gpu);
      Parts parts(t);
      MatrixBuffer whole(t, m, n), sum(t, m, n), pieces(accumulation(t), ranks * m, n);
      const auto vp = place(pieces);
      kernels::linear_backward_input_lanes(place.exec(), parts(place, false), lanes, place(whole));
      for (std::int64_t r = 0; r < ranks; ++r)
        kernels::linear_backward_input_lanes(place.exec(), parts(place, false, r, ranks), lanes / ranks,
                                             vp.row_range(r * m, m), Neighbours::apart);
      kernels::lane_sum(place.exec(), vp.reshaped({ranks, m * n}), {}, 0, place(sum));
      place.fetch();
      EXPECT_EQ(sum.bytes, whole.bytes) << base::name_of(t) << ", " << ranks << " ranks";
    }
}

}  // namespace
}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
