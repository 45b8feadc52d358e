// Products of groups without tensor cores. A block of 256 threads computes 64 x 64 elements, 4 x 4 for each thread,
// from tiles in shared memory. The grid is large enough for any sizes of groups; blocks without rows return. One thread
// adds each element in ascending order.
#include "kernels/grouped_linear/grouped_linear_device.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels {
namespace {

constexpr int edge = 64, depth = 16, each = 4, threads = 256;
template <class F> struct Tiles { F a[depth][edge + 1], b[depth][edge + 1]; };

// The index of memory neighbours: the index of the sum, or the row (column) of the result.
enum class Along { sum, result };

// to[k][i] = element (i, k) of the tile at `from` if k < steps and i < have, otherwise 0.
template <Along A, class T, class F> __device__ __forceinline__ void fetch(const T* from, std::int64_t pitch,
                                                                           std::int64_t steps, std::int64_t have,
                                                                           F (&to)[depth][edge + 1]) {
  for (int at = static_cast<int>(threadIdx.x); at < depth * edge; at += threads) {
    const int k = A == Along::sum ? at % depth : at / edge, i = A == Along::sum ? at / depth : at % edge;
    const bool there = k < steps && i < have;
    to[k][i] = there ? static_cast<F>(widen(from[A == Along::sum ? i * pitch + k : k * pitch + i])) : F(0);
  }
}

template <class F> __device__ __forceinline__ void multiply(const Tiles<F>& tiles, F (&c)[each][each]) {
  const int i0 = static_cast<int>(threadIdx.x) / 16, j0 = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int k = 0; k < depth; ++k) {
    F a[each], b[each];
#pragma unroll
    for (int i = 0; i < each; ++i) a[i] = tiles.a[k][i0 + 16 * i], b[i] = tiles.b[k][j0 + 16 * i];
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) c[i][j] = product_plus(a[i], b[j], c[i][j]);
  }
}

// Calls body(row, column, sum) for this thread's elements, and clears them.
template <class F, class Body> __device__ __forceinline__ void hand_over(F (&c)[each][each], const Body& body) {
  const int i0 = static_cast<int>(threadIdx.x) / 16, j0 = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < each; ++i)
#pragma unroll
    for (int j = 0; j < each; ++j) {
      body(i0 + 16 * i, j0 + 16 * j, c[i][j]);
      c[i][j] = 0;
    }
}

// Grid: tiles of rows, tiles of columns.
template <class T, class C, Along B> __global__ void __launch_bounds__(threads) linear_kernel(GroupedLinearArgs g) {
  using F = compute_t<T>;
  __shared__ Tiles<F> tiles;
  const auto tile = tile_of(g.rows, blockIdx.x, edge);
  if (tile.group < 0) return;
  const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.y) * edge, columns = g.c.cols - column0;
  F c[each][each] = {};
  for (SumWalk walk(g); !walk.done; walk.next(g, depth)) {
    const ConstMat &a = g.a[walk.part], &b = g.b[walk.part].first;
    const T* weight = g.b[walk.part].data<T>(tile.group);
    fetch<Along::sum>(a.row<T>(tile.first) + walk.k, a.pitch, walk.end - walk.k, tile.count, tiles.a);
    fetch<B>(weight + (B == Along::sum ? column0 * b.pitch + walk.k : walk.k * b.pitch + column0), b.pitch,
             walk.end - walk.k, columns, tiles.b);
    __syncthreads();
    multiply(tiles, c);
    __syncthreads();
    if (!walk.ends_lane(g, depth)) continue;
    hand_over(c, [&](int i, int j, F sum) {
      if (i < tile.count && j < columns) end_lane<C>(g, tile, walk.lane, tile.first + i, column0 + j, sum);
    });
  }
}

// Grid: tiles of out, tiles of in, groups.
template <class T> __global__ void __launch_bounds__(threads) weight_kernel(GroupedWeightArgs g) {
  using F = compute_t<T>;
  __shared__ Tiles<F> tiles;
  const std::int64_t group = blockIdx.z, first = g.rows.ranges[2 * group], count = g.rows.ranges[2 * group + 1];
  if (g.rows.left_alone(group)) return;
  const std::int64_t i0 = static_cast<std::int64_t>(blockIdx.x) * edge,
                     j0 = static_cast<std::int64_t>(blockIdx.y) * edge;
  F c[each][each] = {};
  for (std::int64_t k = 0; k < count; k += depth) {
    fetch<Along::result>(g.dy.row<T>(first + k) + i0, g.dy.pitch, count - k, g.dy.cols - i0, tiles.a);
    fetch<Along::result>(g.x.row<T>(first + k) + j0, g.x.pitch, count - k, g.x.cols - j0, tiles.b);
    __syncthreads();
    multiply(tiles, c);
    __syncthreads();
  }
  hand_over(c, [&](int i, int j, F sum) {
    if (i0 + i < g.dy.cols && j0 + j < g.x.cols)
      g.dweight.data<F>(group)[(i0 + i) * g.dweight.first.pitch + j0 + j] = sum;
  });
}

// The order is the CPU's: first blocks of rows, counted from the group's first row, then the blocks.
template <class T> __global__ void bias_gradient_kernel(GroupedWeightArgs g) {
  using F = compute_t<T>;
  TRAINYARD_EACH(i, g.rows.groups * g.dy.cols) {
    const auto [group, c] = place_of(i, g.dy.cols);
    if (g.rows.left_alone(group)) continue;
    const std::int64_t first = g.rows.ranges[2 * group], end = first + g.rows.ranges[2 * group + 1];
    F total = 0;
    for (std::int64_t r = first; r < end;) {
      const auto stop = r + plan::column_sum_rows < end ? r + plan::column_sum_rows : end;
      const bool begins = r == first;
      F sum = 0;
      for (; r < stop; ++r) sum += widen(g.dy.row<T>(r)[c]);
      total = begins ? sum : total + sum;
    }
    g.dbias.data<F>(group)[c] = total;
  }
}

template <class T, class C> void launch_linear(const GroupedLinearArgs& g, void* stream) {
  const dim3 grid(static_cast<unsigned>(most_tiles(g.c.rows, g.rows.groups, edge)),
                  static_cast<unsigned>((g.c.cols + edge - 1) / edge));
  if (g.trans_b) {
    constexpr auto kernel = linear_kernel<T, C, Along::sum>;
    TRAINYARD_LAUNCH(kernel, true, grid, threads, stream, g);
  } else {
    constexpr auto kernel = linear_kernel<T, C, Along::result>;
    TRAINYARD_LAUNCH(kernel, true, grid, threads, stream, g);
  }
}

}  // namespace

const char* gpu::grouped_linear(const GroupedLinearArgs& g, void* stream) {
  if (!grouped_linear_mma(g, stream))
    with_type(g.a[0].type, [&]<class T>(T*) {
      if (g.c.type == g.a[0].type) launch_linear<T, T>(g, stream);
      else launch_linear<T, float>(g, stream);
    });
  return launch_failure();
}

const char* gpu::grouped_weight(const GroupedWeightArgs& g, void* stream) {
  if (!grouped_weight_mma(g, stream))
    with_type(g.x.type, [&]<class T>(T*) {
      const dim3 grid(static_cast<unsigned>((g.dy.cols + edge - 1) / edge),
                      static_cast<unsigned>((g.x.cols + edge - 1) / edge), static_cast<unsigned>(g.rows.groups));
      TRAINYARD_LAUNCH(weight_kernel<T>, true, grid, threads, stream, g);
    });
  if (const auto* failure = launch_failure()) return failure;
  if (g.dbias.empty()) return nullptr;
  with_type(g.x.type, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(bias_gradient_kernel<T>, false, blocks_for(g.rows.groups * g.dy.cols), 256, stream, g);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels
