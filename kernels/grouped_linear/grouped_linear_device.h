// Shared by the GPU products of groups: a block's rows, the order of its sums, and where sums of lanes wait. Included
// by *_cuda.cu.
#pragma once

#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "kernels/lane_order.h"

namespace trainyard::kernels {
namespace {

// Rows [first, first + count) of a group; group -1 means none.
struct TileRows {
  std::int64_t group, first, count;
};

// The most tiles of `height` rows, however the rows are distributed over groups. The last tile of a group may be short.
inline std::int64_t most_tiles(std::int64_t rows, std::int64_t groups, std::int64_t height) {
  return rows / height + (groups < rows ? groups : rows);
}

// Tile t, counted through all groups in order. All lanes of a warp call it together and get the same result; it looks
// at 32 groups at once.
__device__ __forceinline__ TileRows tile_of(const GroupRanges& r, std::int64_t t, std::int64_t height) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t base = 0; base < r.groups; base += 32) {
    const bool any = base + lane < r.groups && !r.left_alone(base + lane);
    const std::int64_t rows = any ? r.ranges[2 * (base + lane) + 1] : 0;
    const std::int64_t tiles = (rows + height - 1) / height;
    std::int64_t end = tiles;
    for (int step = 1; step < 32; step *= 2) {
      const std::int64_t before = __shfl_sync(0xffffffffu, end, (lane - step) & 31);
      if (lane >= step) end += before;
    }
    const std::int64_t all = __shfl_sync(0xffffffffu, end, 31);
    if (t < all) {
      const int found = warp_max(t >= end - tiles && t < end ? lane : -1);
      const std::int64_t at = (t - __shfl_sync(0xffffffffu, end - tiles, found)) * height;
      const std::int64_t left = __shfl_sync(0xffffffffu, rows, found) - at;
      return {base + found, r.ranges[2 * (base + found)] + at, left < height ? left : height};
    }
    t -= all;
  }
  return {-1, 0, 0};
}

// Walks the sum in steps of `depth`: lane by lane, and part by part within a lane. No step crosses a slice.
struct SumWalk {
  std::int64_t lane = 0, k = 0, end = 0;  // the step begins at k of a part; its slice ends at `end`
  int part = 0;
  bool done = false;
  __device__ __forceinline__ SumWalk() {}
  __device__ __forceinline__ explicit SumWalk(const GroupedLinearArgs& g) { open(g); }
  __device__ __forceinline__ void open(const GroupedLinearArgs& g) {
    const auto slice = g.a[part].cols / g.lanes;
    k = lane * slice, end = k + slice;
  }
  __device__ __forceinline__ bool ends_lane(const GroupedLinearArgs& g, std::int64_t depth) const {
    return k + depth >= end && part + 1 == g.parts;
  }
  __device__ __forceinline__ void next(const GroupedLinearArgs& g, std::int64_t depth) {
    k += depth;
    if (k < end) return;
    if (++part == g.parts) part = 0, ++lane;
    if (lane == g.lanes) done = true;
    else open(g);
  }
};

// Ends a lane's sum for element (row, column) of the result. The sum is joined with the sums that wait for it. Then it
// waits itself, or it is finished and stored. Sums wait in scratch, in f32 (f64): [lane_temporaries, rows of c, columns
// of c]. No other thread touches the element.
template <class C, class F> __device__ __forceinline__ void end_lane(const GroupedLinearArgs& g, const TileRows& tile,
                                                                     std::int64_t lane, std::int64_t row,
                                                                     std::int64_t column, F sum) {
  if (g.lanes > 1) {
    F* waiting = static_cast<F*>(g.scratch) + (row * g.c.cols + column);
    const std::int64_t apart = g.c.rows * g.c.cols;
    const auto step = lane_step(lane, g.lanes);
    for (int i = 0; i < step.joins; ++i) sum = waiting[i * apart] + sum;
    if (lane + 1 < g.lanes) {
      waiting[step.place * apart] = sum;
      return;
    }
  }
  if (!g.bias.empty()) sum += widen(g.bias.data<C>(tile.group)[column]);
  store(g.c.row<C>(row) + column, sum);
}

}  // namespace

// Run on tensor cores. They return false if the operands do not have the needed layout (grouped_linear_mma_cuda.cu).
bool grouped_linear_mma(const GroupedLinearArgs& g, void* stream);
bool grouped_weight_mma(const GroupedWeightArgs& g, void* stream);

}  // namespace trainyard::kernels
