// Attention's backward pass on Hopper, shared by its threads: the layout of shared memory, the rows that a block works
// on, and the warp that copies. For attention_hopper_backward_cuda.cu.
#pragma once

#include "kernels/attention/attention_hopper_device.h"

namespace trainyard::kernels {
namespace {

// A block holds its own rows, 64 for each group that computes products. It runs over tiles of `others` rows, of which
// `stages` are in shared memory. The pass by keys holds keys and runs over queries; the pass by queries is its mirror.
template <int Head, bool Of_keys> struct HopperPass {
  static_assert(Head == 64 || Head == 128);
  static constexpr int D = Head;
  static constexpr bool by_keys = Of_keys;
  static constexpr bool tight = D == 128 && !by_keys;  // slopes are narrowed in place, because no registers are left
  static constexpr int groups = tight ? 3 : 2, rows = 64 * groups;
  static constexpr int others = D == 64 && !by_keys ? 128 : 64, stages = D == 64 && by_keys ? 6 : 4;
  static constexpr int threads = 128 * (groups + 1), warps = 4 * groups;  // warps: those that compute products
  static constexpr int copying_registers = groups == 3 ? 32 : 24, multiplying_registers = groups == 3 ? 160 : 240;
  static constexpr int own_bytes = rows * D * 2, other_bytes = others * D * 2, query_bytes = by_keys ? others * 12 : 0;
  static constexpr int queries_at = 2 * own_bytes + 2 * stages * other_bytes;
  static constexpr int barriers_at = queries_at + stages * query_bytes, job_at = barriers_at + 8 * (4 + 4 * stages);
  static constexpr int shared_bytes = job_at + 16 + SharedTiles::alignment;
};
template <int D> using ByKeys = HopperPass<D, true>;
template <int D> using ByQueries = HopperPass<D, false>;

// own: the rows that a block holds, either keys and values, or queries and output gradients. other: the rows that it
// runs over. first: queries or keys. second: output gradients or values.
struct BackwardMaps {
  TensorMap own_first, own_second, other_first, other_second;
};

struct BackwardArgs {
  int batch, sequence, heads, kv_heads;
  int row_tiles, heads_at_once;  // row_tiles: tiles of own rows in one head
  float scale;
  const std::int32_t* document_start;
  ConstMat out, lse, dout;
  Mat dq, dk, dv;
  float* delta;  // [batch * heads, sequence]: sums of out * dout; the pass by queries writes them, the pass by keys
                 // reads them
  int* taken;    // starts at 0: how many jobs of the pass the blocks have taken, beyond the first job of each block
  int reach;     // AttentionArgs::reach
};

// ---- Jobs: a head's tile of own rows -------------------------------------------------------------------------------
// By keys: the keys from `row` on of key-value head kv, and tiles [from, to) of the queries of each of its heads. By
// queries: the queries from `row` on of head h, and tiles [from, to) of keys.
struct BackwardJob {
  int b, h, kv, row, from, to;
};
template <class C> TRAINYARD_ANYWHERE int heads_of(const BackwardArgs& a) {
  return a.batch * (C::by_keys ? a.kv_heads : a.heads);
}
template <class C> TRAINYARD_ANYWHERE int jobs_of(const BackwardArgs& a) { return a.row_tiles * heads_of<C>(a); }

// Takes as many heads at a time as run over rows that fit the L2 cache together. Within these heads the longest rows
// come first. Ignores documents and windows.
template <class C> __device__ __forceinline__ BackwardJob job_of(const BackwardArgs& a, int number) {
  const int section = number / (a.heads_at_once * a.row_tiles), first = section * a.heads_at_once;
  const int left = heads_of<C>(a) - first, here = left < a.heads_at_once ? left : a.heads_at_once;
  const int within = number - first * a.row_tiles, head = first + within % here, tile = within / here;
  if (C::by_keys) {
    const int row = tile * C::rows;
    return {head / a.kv_heads, 0, head % a.kv_heads, row, row / C::others, (a.sequence - 1) / C::others + 1};
  }
  const int row = (a.row_tiles - 1 - tile) * C::rows, h = head % a.heads;
  const int end = row + C::rows < a.sequence ? row + C::rows : a.sequence;
  return {head / a.heads, h, h / (a.heads / a.kv_heads), row, 0, (end - 1) / C::others + 1};
}

// The bound that documents and windows set to the job's tiles: the end of the tiles of queries, or, by queries, the
// begin of the tiles of keys. Documents begin in ascending order.
template <class C> __device__ __forceinline__ int limit_of(const BackwardArgs& a, const BackwardJob& job) {
  if (!C::by_keys) return first_key(a, job.b, job.row) / C::others;
  const auto beyond = [&](int n) { return first_key(a, job.b, n * C::others) >= job.row + C::rows; };
  return beyond(job.to - 1) ? first_far(job.from, job.to, beyond) : job.to;
}
template <class C> __device__ __forceinline__ void limit(BackwardJob& job, int limit) {
  if (C::by_keys) job.to = limit;
  else job.from = limit;
}

// ---- Shared memory -------------------------------------------------------------------------------------------------
// own first | own second [rows][D] | other first [stages][others][D] | other second | lse, delta and document start of
// queries [stages][3][others] | barriers | the job of the own rows, or -1 at the end | its limit
template <class C> struct BackwardShared : SharedTiles {
  using SharedTiles::SharedTiles;
  __device__ __forceinline__ std::uint32_t own_first() const { return at; }
  __device__ __forceinline__ std::uint32_t own_second() const { return at + C::own_bytes; }
  __device__ __forceinline__ std::uint32_t first(int slot) const {
    return at + 2 * C::own_bytes + slot * C::other_bytes;
  }
  __device__ __forceinline__ std::uint32_t second(int slot) const { return first(C::stages + slot); }
  __device__ __forceinline__ std::uint32_t queries(int slot) const {
    return at + C::queries_at + slot * C::query_bytes;
  }
  __device__ __forceinline__ const float* lse(int slot) const {
    return reinterpret_cast<const float*>(base + C::queries_at + slot * C::query_bytes);
  }
  __device__ __forceinline__ const float* delta(int slot) const { return lse(slot) + C::others; }
  __device__ __forceinline__ const int* start(int slot) const {
    return reinterpret_cast<const int*>(lse(slot) + 2 * C::others);
  }
  __device__ __forceinline__ std::uint32_t barrier(int i) const { return at + C::barriers_at + 8 * i; }
  __device__ __forceinline__ std::uint32_t own_first_full() const { return barrier(0); }
  __device__ __forceinline__ std::uint32_t own_second_full() const { return barrier(1); }
  __device__ __forceinline__ std::uint32_t own_empty() const { return barrier(2); }
  __device__ __forceinline__ std::uint32_t job_full() const { return barrier(3); }
  __device__ __forceinline__ std::uint32_t first_full(int slot) const { return barrier(4 + slot); }
  __device__ __forceinline__ std::uint32_t second_full(int slot) const { return barrier(4 + C::stages + slot); }
  __device__ __forceinline__ std::uint32_t queries_full(int slot) const { return barrier(4 + 2 * C::stages + slot); }
  __device__ __forceinline__ std::uint32_t empty(int slot) const { return barrier(4 + 3 * C::stages + slot); }
  __device__ __forceinline__ volatile int* job() const { return reinterpret_cast<volatile int*>(base + C::job_at); }
  __device__ __forceinline__ volatile int* limit() const { return job() + 1; }

  // Called by one thread. Full barriers wait for the copying warp, empty barriers for every warp that computes
  // products.
  __device__ void set_barriers() const {
    set_barrier(own_first_full(), 1), set_barrier(own_second_full(), 1), set_barrier(own_empty(), C::warps);
    set_barrier(job_full(), 1);
    for (int slot = 0; slot < C::stages; ++slot) {
      set_barrier(first_full(slot), 1), set_barrier(second_full(slot), 1);
      set_barrier(queries_full(slot), 32), set_barrier(empty(slot), C::warps);
    }
    publish_barriers();
  }
};

// ---- The warp that copies ------------------------------------------------------------------------------------------
// Copies the numbers of each query of the tile from i0 on. Past the sequence's end lse and delta are 0.
template <class C> __device__ __forceinline__ void copy_queries(const BackwardArgs& a, const BackwardShared<C>& m,
                                                                int slot, int b, int h, int i0, int lane) {
  const std::int64_t head = static_cast<std::int64_t>(b) * a.heads + h;
#pragma unroll 1  // unrolled it would not fit the registers of the copying warp
  for (int n = lane; n < C::others; n += 32) {
    const bool there = i0 + n < a.sequence;
    const int i = there ? i0 + n : a.sequence - 1;
    const std::uint32_t to = m.queries(slot) + n * 4;
    copy_4(to, a.lse.row<float>(head) + i, there);
    copy_4(to + C::others * 4, a.delta + head * a.sequence + i, there);
    copy_4(to + C::others * 8, a.document_start + static_cast<std::int64_t>(b) * a.sequence + i, true);
  }
  arrive_copied(m.queries_full(slot));
}

// Blocks take job after job. The first tile to run over may be copied before the previous job's own rows are released.
template <class C>
__device__ void copy_jobs(const BackwardMaps& maps, const BackwardArgs& a, const BackwardShared<C>& m, int lane) {
  const bool copies = lane == 0;
  if (copies) {
    prefetch_map(&maps.own_first), prefetch_map(&maps.own_second);
    prefetch_map(&maps.other_first), prefetch_map(&maps.other_second);
  }
  Slot<C::stages> slot;
  const int jobs = jobs_of<C>(a), group = a.heads / a.kv_heads;
  std::uint32_t parity = 1;
  for (int number = static_cast<int>(blockIdx.x); number < jobs; parity ^= 1) {
    BackwardJob job = job_of<C>(a, number);
    const int own = C::by_keys ? job.kv : job.h;
    limit<C>(job, limit_of<C>(a, job));
    for (int g = 0; g < (C::by_keys ? group : 1); ++g) {
      const int head = C::by_keys ? job.kv * group + g : job.kv;
      for (int n = job.from; n < job.to; ++n) {
        const int row = (C::by_keys ? n : job.from + job.to - 1 - n) * C::others;
        await(m.empty(slot.index), slot.parity ^ 1);
        __syncwarp();  // no lane may lag by a whole round of the ring: it would wait for a phase that is already gone
        if (copies)
          copy_tile<C::D>(&maps.other_first, m.first(slot.index), m.first_full(slot.index), C::others, head, row,
                          job.b);
        if (g == 0 && n == job.from) {
          await(m.own_empty(), parity);
          if (copies) {
            *m.job() = number;
            *m.limit() = C::by_keys ? job.to : job.from;
            arrive(m.job_full());
            copy_tile<C::D>(&maps.own_first, m.own_first(), m.own_first_full(), C::rows, own, job.row, job.b);
            copy_tile<C::D>(&maps.own_second, m.own_second(), m.own_second_full(), C::rows, own, job.row, job.b);
          }
        }
        if (copies)
          copy_tile<C::D>(&maps.other_second, m.second(slot.index), m.second_full(slot.index), C::others, head, row,
                          job.b);
        if constexpr (C::by_keys) copy_queries<C>(a, m, slot.index, job.b, head, row, lane);
        slot.step();
      }
    }
    if (copies) number = static_cast<int>(gridDim.x) + atomicAdd(a.taken, 1);
    number = __shfl_sync(0xffffffffu, number, 0);
  }
  await(m.own_empty(), parity);
  if (!copies) return;
  *m.job() = -1;
  arrive(m.job_full());
}

// ---- A query's sum of out * dout -----------------------------------------------------------------------------------
// Sum of out * dout of a row, by four lanes. t: lane % 4.
template <int D> struct RowSum {
  uint4 out[D / 32], dout[D / 32];
  __device__ __forceinline__ void take(const BackwardArgs& a, std::int64_t row, int column, int t) {
    const auto* x = reinterpret_cast<const uint4*>(a.out.row<b16>(row) + column) + t;
    const auto* y = reinterpret_cast<const uint4*>(a.dout.row<b16>(row) + column) + t;
#pragma unroll
    for (int c = 0; c < D / 32; ++c) out[c] = x[4 * c], dout[c] = y[4 * c];
  }
  __device__ __forceinline__ float sum() const {
    float sum = 0;
    const auto add = [&sum](unsigned u, unsigned v) {
      sum = fmaf(__uint_as_float(u << 16), __uint_as_float(v << 16), sum);
      sum = fmaf(__uint_as_float(u & 0xffff0000u), __uint_as_float(v & 0xffff0000u), sum);
    };
#pragma unroll
    for (int c = 0; c < D / 32; ++c)
      add(out[c].x, dout[c].x), add(out[c].y, dout[c].y), add(out[c].z, dout[c].z), add(out[c].w, dout[c].w);
#pragma unroll
    for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
  }
};

// The numbers of a thread's two queries. Queries past the sequence's end have weight 0.
template <int D> struct PerQuery {
  std::int64_t at[2];
  bool there[2];
  float lse[2];
  RowSum<D> sums[2];
  __device__ __forceinline__ void take(const BackwardArgs& a, const BackwardJob& job, const HopperPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t head = static_cast<std::int64_t>(job.b) * a.heads + job.h;
      const int i = job.row + place.row() + 8 * half;
      there[half] = i < a.sequence;
      const int row = there[half] ? i : 0;
      at[half] = head * a.sequence + row;
      lse[half] = a.lse.row<float>(head)[row];
      sums[half].take(a, static_cast<std::int64_t>(job.b) * a.sequence + row, job.h * D, place.lane % 4);
    }
  }
  __device__ __forceinline__ void finish(const BackwardArgs& a, const HopperPlace& place, float (&base)[2],
                                         float (&delta)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      base[half] = there[half] ? lse[half] * -log2_e : -INFINITY;
      delta[half] = sums[half].sum();
      if (there[half] && place.lane % 4 == 0) a.delta[at[half]] = delta[half];
      if (!there[half]) delta[half] = 0;
    }
  }
};

}  // namespace
}  // namespace trainyard::kernels
