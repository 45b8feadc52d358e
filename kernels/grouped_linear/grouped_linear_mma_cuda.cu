// Products of groups in bf16 on tensor cores, with f32 sums. A block of 8 warps computes 128 columns of 128 rows, or of
// 32 rows where groups are small. The next tiles are copied to shared memory during the products. Every element is
// added in ascending order in one accumulator.
#include "kernels/gpu_mma.h"
#include "kernels/grouped_linear/grouped_linear_device.h"

namespace trainyard::kernels {
namespace {

constexpr int wide = 128, deep = 64, team = 256;
// The index of memory neighbours: the index of the sum, or the row (column) of the result.
enum class Run { sum, result };

// Layout in shared memory of a tile with `size` rows (columns) of the result. A line holds neighbours in memory. Lines
// are 8 elements longer than used, so that they fall into different banks.
template <Run R, int size> struct Operand {
  static constexpr int line = R == Run::sum ? deep : size, lines = R == Run::sum ? size : deep, pitch = line + 8,
                       elements = lines * pitch;

  // Starts the copy. `steps` of the sum and `have` of the result are left. Along the line both are whole groups of 8.
  static __device__ __forceinline__ void fetch(const b16* from, std::int64_t from_pitch, std::int64_t steps,
                                               std::int64_t have, b16* to) {
    const std::int64_t most_lines = R == Run::sum ? have : steps, most = R == Run::sum ? steps : have;
    for (int i = static_cast<int>(threadIdx.x); i < lines * line / 8; i += team) {
      const int r = i / (line / 8), c = i % (line / 8) * 8;
      const bool there = r < most_lines && c < most;
      copy_16(to + r * pitch + c, there ? from + r * from_pitch + c : from, there);
    }
  }
  // Loads the operand `a` of rows [row, row + 16) and step k of 16.
  static __device__ __forceinline__ void take_a(const b16* tile, int row, int k, unsigned (&a)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (R == Run::sum) load_tiles(a, tile + (row + lane % 16) * pitch + 16 * k + lane / 16 * 8);
    else load_tiles_transposed(a, tile + (16 * k + lane / 16 * 8 + lane % 8) * pitch + row + lane / 8 % 2 * 8);
  }
  // Loads the operand b of columns [column, column + 8), then of the next 8 columns.
  static __device__ __forceinline__ void take_b(const b16* tile, int column, int k, unsigned (&b)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (R == Run::sum) load_tiles(b, tile + (column + lane / 16 * 8 + lane % 8) * pitch + 16 * k + lane / 8 % 2 * 8);
    else load_tiles_transposed(b, tile + (16 * k + lane % 16) * pitch + column + lane / 16 * 8);
  }
};

// How a block's warps share its tile: each warp has `rows` rows and `columns` columns.
template <Run A, Run B, int tall> struct Shape {
  using Left = Operand<A, tall>;
  using Right = Operand<B, wide>;
  static constexpr int warps_down = tall > 64 ? 2 : 1, warps_across = team / 32 / warps_down;
  static constexpr int rows = tall / warps_down, columns = wide / warps_across;  // of a warp
  static constexpr int down = rows / 16, across = columns / 8;                   // products of a warp
  static constexpr int slot = Left::elements + Right::elements;
  static constexpr int bytes = 2 * slot * static_cast<int>(sizeof(b16));
};

// A thread's sums of the block's tile.
template <class S> struct Sums {
  float c[S::down][S::across][4];
  __device__ __forceinline__ Sums() { clear(); }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < S::down; ++i)
#pragma unroll
      for (int j = 0; j < S::across; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) c[i][j][e] = 0;
  }
  __device__ __forceinline__ static int row0() {
    return static_cast<int>(threadIdx.x) / 32 / S::warps_across * S::rows;
  }
  __device__ __forceinline__ static int column0() {
    return static_cast<int>(threadIdx.x) / 32 % S::warps_across * S::columns;
  }
  __device__ __forceinline__ void multiply(const b16* left, const b16* right) {
#pragma unroll
    for (int k = 0; k < deep / 16; ++k) {
      unsigned a[S::down][4];
#pragma unroll
      for (int i = 0; i < S::down; ++i) S::Left::take_a(left, row0() + 16 * i, k, a[i]);
#pragma unroll
      for (int j = 0; j < S::across; j += 2) {
        unsigned b[4];
        S::Right::take_b(right, column0() + 8 * j, k, b);
#pragma unroll
        for (int i = 0; i < S::down; ++i) {
          mma_bf16(c[i][j], a[i], b[0], b[1]);
          mma_bf16(c[i][j + 1], a[i], b[2], b[3]);
        }
      }
    }
  }
  // Calls body(row, column, sum) for each of this thread's sums.
  template <class Body> __device__ __forceinline__ void each(const Body& body) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < S::down; ++i)
#pragma unroll
      for (int j = 0; j < S::across; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          body(row0() + 16 * i + lane / 4 + e / 2 * 8, column0() + 8 * j + lane % 4 * 2 + e % 2, c[i][j][e]);
  }
};

// Grid: tiles of rows, tiles of columns.
template <class C, Run B, int tall> __global__ void __launch_bounds__(team) linear_mma_kernel(GroupedLinearArgs g) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  using S = Shape<Run::sum, B, tall>;
  b16* tiles = reinterpret_cast<b16*>(memory);
  const auto tile = tile_of(g.rows, blockIdx.x, tall);
  if (tile.group < 0) return;
  const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.y) * wide, columns = g.c.cols - column0;
  const auto fetch = [&](const SumWalk& at, int slot) {
    const ConstMat &a = g.a[at.part], &b = g.b[at.part].first;
    const b16* weight = g.b[at.part].template data<b16>(tile.group);
    b16* to = tiles + slot * S::slot;
    S::Left::fetch(a.row<b16>(tile.first) + at.k, a.pitch, at.end - at.k, tile.count, to);
    S::Right::fetch(weight + (B == Run::sum ? column0 * b.pitch + at.k : at.k * b.pitch + column0), b.pitch,
                    at.end - at.k, columns, to + S::Left::elements);
    close_copies();
  };
  Sums<S> sums;
  SumWalk walk(g);
  fetch(walk, 0);
  for (int slot = 0; !walk.done; slot ^= 1) {
    await_copies();
    __syncthreads();
    auto next = walk;
    next.next(g, deep);
    if (!next.done) fetch(next, slot ^ 1);
    const b16* left = tiles + slot * S::slot;
    sums.multiply(left, left + S::Left::elements);
    if (walk.ends_lane(g, deep)) {
      sums.each([&](int i, int j, float sum) {
        if (i < tile.count && j < columns) end_lane<C>(g, tile, walk.lane, tile.first + i, column0 + j, sum);
      });
      sums.clear();
    }
    walk = next;
  }
}

// Grid: tiles of out, tiles of in, groups.
template <int tall> __global__ void __launch_bounds__(team) weight_mma_kernel(GroupedWeightArgs g) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  using S = Shape<Run::result, Run::result, tall>;
  b16* tiles = reinterpret_cast<b16*>(memory);
  const std::int64_t group = blockIdx.z, first = g.rows.ranges[2 * group], count = g.rows.ranges[2 * group + 1];
  if (g.rows.left_alone(group)) return;
  const std::int64_t i0 = static_cast<std::int64_t>(blockIdx.x) * tall,
                     j0 = static_cast<std::int64_t>(blockIdx.y) * wide;
  const auto fetch = [&](std::int64_t k, int slot) {
    b16* to = tiles + slot * S::slot;
    S::Left::fetch(g.dy.row<b16>(first + k) + i0, g.dy.pitch, count - k, g.dy.cols - i0, to);
    S::Right::fetch(g.x.row<b16>(first + k) + j0, g.x.pitch, count - k, g.x.cols - j0, to + S::Left::elements);
    close_copies();
  };
  Sums<S> sums;
  if (count > 0) fetch(0, 0);
  int slot = 0;
  for (std::int64_t k = 0; k < count; k += deep, slot ^= 1) {
    await_copies();
    __syncthreads();
    if (k + deep < count) fetch(k + deep, slot ^ 1);
    const b16* left = tiles + slot * S::slot;
    sums.multiply(left, left + S::Left::elements);
  }
  float* to = g.dweight.data<float>(group);
  sums.each([&](int i, int j, float sum) {
    if (i0 + i < g.dy.cols && j0 + j < g.x.cols) to[(i0 + i) * g.dweight.first.pitch + j0 + j] = sum;
  });
}

// Whether 8 neighbours can be copied at a time, at multiples of 16 bytes.
bool in_eights(const ConstMat& m) {
  return m.type == Type::bf16 && m.pitch % 8 == 0 && reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0;
}
bool in_eights(const ConstGroupedMat& m) { return in_eights(m.first) && m.stride % 8 == 0; }

template <class C, Run B, int tall> void launch_mma(const GroupedLinearArgs& g, void* stream) {
  constexpr auto kernel = linear_mma_kernel<C, B, tall>;
  constexpr int bytes = Shape<Run::sum, B, tall>::bytes;
  const dim3 grid(static_cast<unsigned>(most_tiles(g.c.rows, g.rows.groups, tall)),
                  static_cast<unsigned>((g.c.cols + wide - 1) / wide));
  TRAINYARD_LAUNCH_SHARED(kernel, bytes, grid, team, stream, g);
}
template <class C, Run B> void launch_mma(const GroupedLinearArgs& g, void* stream) {
  if (g.c.rows <= 64 * g.rows.groups) launch_mma<C, B, 32>(g, stream);
  else launch_mma<C, B, 128>(g, stream);
}

}  // namespace

bool grouped_linear_mma(const GroupedLinearArgs& g, void* stream) {
  for (int p = 0; p < g.parts; ++p)
    if (!in_eights(g.a[p]) || !in_eights(g.b[p]) || g.a[p].cols % (8 * g.lanes) != 0) return false;
  if (!g.trans_b && g.c.cols % 8 != 0) return false;
  if (g.c.type == Type::bf16)
    g.trans_b ? launch_mma<b16, Run::sum>(g, stream) : launch_mma<b16, Run::result>(g, stream);
  else g.trans_b ? launch_mma<float, Run::sum>(g, stream) : launch_mma<float, Run::result>(g, stream);
  return true;
}

bool grouped_weight_mma(const GroupedWeightArgs& g, void* stream) {
  if (!in_eights(g.dy) || !in_eights(g.x) || g.dy.cols % 8 != 0 || g.x.cols % 8 != 0) return false;
  constexpr int tall = 128, bytes = Shape<Run::result, Run::result, tall>::bytes;
  const dim3 grid(static_cast<unsigned>((g.dy.cols + tall - 1) / tall),
                  static_cast<unsigned>((g.x.cols + wide - 1) / wide), static_cast<unsigned>(g.rows.groups));
  TRAINYARD_LAUNCH_SHARED(weight_mma_kernel<tall>, bytes, grid, team, stream, g);
  return true;
}

}  // namespace trainyard::kernels
