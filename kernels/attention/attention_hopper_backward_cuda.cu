// Attention's backward pass on Hopper, first by queries for dq and then by keys for dk and dv. Both passes recompute
// the weights, so nothing is added atomically, and the bits depend on the inputs alone. A group keeps the weights of
// its rows and their slopes in registers. They are the operands `a` of the products that it sums up. While it computes
// the weights of a tile, products of this tile and of the previous one run.
#include "kernels/attention/attention_hopper_backward_device.h"

namespace trainyard::kernels {
namespace {

// Narrows x to bf16 into its own first half.
template <int N> __device__ __forceinline__ void narrow_in_place(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) x[i] = __uint_as_float(pack_bf16(x[2 * i], x[2 * i + 1]));
}
// o[64, D] += p[64, N] v[N, D], where p was narrowed in place.
template <int D, int N>
__device__ __forceinline__ void mix_in_place(float (&o)[D / 2], const float (&p)[N / 2], std::uint64_t v) {
#pragma unroll
  for (int step = 0; step < N / 16; ++step) multiply_columns(o, p + 4 * step, v + row_step(step));
  commit_products();
}

// Stores the group's rows of a gradient.
template <class C> __device__ __forceinline__ void put_tile(const BackwardArgs& a, const BackwardJob& job,
                                                            const HopperPlace& place, const Mat& x, int head,
                                                            const float (&sums)[C::D / 2], float factor) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = job.row + place.row() + 8 * half;
    put_row<C::D>(x, static_cast<std::int64_t>(job.b) * a.sequence + i, i < a.sequence, head * C::D, place.lane % 4,
                  sums, half, factor);
  }
}

// The values of two neighbouring queries, in one load.
template <class T> struct alignas(8) Two { T of[2]; };
template <class T> __device__ __forceinline__ Two<T> two_at(const T* p) { return *reinterpret_cast<const Two<T>*>(p); }

// ---- By keys -------------------------------------------------------------------------------------------------------
// Whether some key from `own` on lies before the document or the window of the last of N queries. start: the starts of
// the queries' documents. window: the first query minus the reach.
template <int N> __device__ __forceinline__ bool hides(const int* start, int window, int own) {
  return start[N - 1] > own || window + N - 1 > own;
}
// Hides keys j and j + 8 from queries whose document or window begins behind them. start, window: as above.
template <int N>
__device__ __forceinline__ void hide_earlier(float (&s)[N], const int* start, int window, int j, int t) {
#pragma unroll
  for (int n = 0; n < N / 4; ++n) {
    const auto first = two_at(start + 8 * n + 2 * t);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = j + i / 2 * 8;
      if (key < first.of[i % 2] || key < window + 8 * n + 2 * t + i % 2) s[4 * n + i] = -INFINITY;
    }
  }
}
// Products of keys (rows) and queries (columns) become weights. lse belongs to the columns. reach: the key of s[0]
// minus the query; a query sees no later key. Queries past the sequence's end are all zeros: they have weights, but add
// nothing.
template <bool Masked, int N>
__device__ __forceinline__ void weigh_keys(float (&s)[N], const float* lse, float scale, int reach, int t) {
#pragma unroll
  for (int n = 0; n < N / 4; ++n) {
    const auto two = two_at(lse + 8 * n + 2 * t);
    const float base[2] = {-two.of[0] * log2_e, -two.of[1] * log2_e};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& x = s[4 * n + i];
      if (Masked && reach + i / 2 * 8 > 8 * n + i % 2) x = -INFINITY;
      x = exp2_of(fmaf(x, scale, base[i % 2]));
    }
  }
}
template <int N>
__device__ __forceinline__ void slope_keys(float (&dp)[N], const float (&weights)[N], const float* delta, int t) {
#pragma unroll
  for (int n = 0; n < N / 4; ++n) {
    const auto two = two_at(delta + 8 * n + 2 * t);
#pragma unroll
    for (int i = 0; i < 4; ++i) dp[4 * n + i] = weights[4 * n + i] * (dp[4 * n + i] - two.of[i % 2]);
  }
}

// A tile of keys. Weights and slopes are narrowed into the same registers, each after products have read the other.
template <class C> __device__ __forceinline__ void work_on(const BackwardArgs& a, const BackwardShared<C>& m,
                                                           const BackwardJob& job, const HopperPlace& place,
                                                           std::uint32_t parity, Slot<C::stages>& slot) {
  constexpr int D = C::D, N = C::others;
  const float scale = a.scale * log2_e;
  const int group = a.heads / a.kv_heads, t = place.lane % 4, own = job.row + 64 * place.group;
  const int from = own / N < job.to ? own / N : job.to;  // no query of earlier tiles sees the group's keys
  const std::uint64_t k = rows_descriptor(m.own_first() + place.group * 64 * panel_row_bytes),
                      v = rows_descriptor(m.own_second() + place.group * 64 * panel_row_bytes);
  float s[N / 2], dp[N / 2], dk[D / 2], dv[D / 2];
  unsigned narrowed[N / 16][4];
  await(m.own_first_full(), parity);
  clear(dk), clear(dv);
#pragma unroll 1
  for (int g = 0; g < group; ++g) {
    for (int n = job.from; n < from; ++n) {
      await(m.first_full(slot.index), slot.parity);
      await(m.second_full(slot.index), slot.parity);
      await(m.queries_full(slot.index), slot.parity);
      release(m.empty(slot.index), place);
      slot.step();
    }
    if (from == job.to) continue;
    await(m.first_full(slot.index), slot.parity);
    pin(s), pin(dk), pin(dv);
    fence_products();
    score<D, N>(s, k, C::rows, rows_descriptor(m.first(slot.index)));
    await(m.own_second_full(), parity);
    await(m.second_full(slot.index), slot.parity);
    pin(dp);
    fence_products();
    score<D, N>(dp, v, C::rows, rows_descriptor(m.second(slot.index)));
    wait_products<1>();
    pin(s);
    await(m.queries_full(slot.index), slot.parity);
    if (hides<N>(m.start(slot.index), from * N - a.reach, own))
      hide_earlier(s, m.start(slot.index), from * N - a.reach, job.row + place.row(), t);
    weigh_keys<true>(s, m.lse(slot.index), scale, job.row + place.row() - from * N - 2 * t, t);
    narrow<N>(narrowed, s);
    pin(s);
    await(m.second_full(slot.index), slot.parity);  // ends at once; keeps ptxas from moving the wait forward
    wait_products<0>();
    pin(dp), pin(s), pin(narrowed);
    fence_products();
    mix<D, N>(dv, narrowed, columns_descriptor(m.second(slot.index), N));
    slope_keys(dp, s, m.delta(slot.index), t);
#pragma unroll 1
    for (int n = from + 1; n < job.to; ++n) {
      Slot<C::stages> next = slot;
      next.step();
      await(m.first_full(next.index), next.parity);
      pin(s), pin(dp);
      fence_products();
      score<D, N>(s, k, C::rows, rows_descriptor(m.first(next.index)));
      await(m.second_full(next.index), next.parity);
      wait_products<1>();  // for dv's product, of the previous tile
      pin(narrowed), pin(dp);
      narrow<N>(narrowed, dp);
      pin(narrowed);
      fence_products();
      mix<D, N>(dk, narrowed, columns_descriptor(m.first(slot.index), N));
      pin(dp);
      fence_products();
      score<D, N>(dp, v, C::rows, rows_descriptor(m.second(next.index)));
      wait_products<2>();
      pin(s);
      await(m.queries_full(next.index), next.parity);
      if (hides<N>(m.start(next.index), n * N - a.reach, own))
        hide_earlier(s, m.start(next.index), n * N - a.reach, job.row + place.row(), t);
      weigh_keys<false>(s, m.lse(next.index), scale, 0, t);
      pin(s);
      await(m.second_full(next.index), next.parity);  // ends at once; keeps ptxas from moving the wait forward
      wait_products<1>();                             // for dk's product
      pin(narrowed), pin(s);
      release(m.empty(slot.index), place);
      slot = next;
      narrow<N>(narrowed, s);
      pin(narrowed);
      await(m.second_full(slot.index), slot.parity);  // as above
      wait_products<0>();
      pin(dp), pin(s);
      fence_products();
      mix<D, N>(dv, narrowed, columns_descriptor(m.second(slot.index), N));
      slope_keys(dp, s, m.delta(slot.index), t);
    }
    pin(dp);
    await(m.second_full(slot.index), slot.parity);  // as above
    wait_products<0>();
    pin(narrowed), pin(dp);
    narrow<N>(narrowed, dp);
    pin(narrowed);
    fence_products();
    mix<D, N>(dk, narrowed, columns_descriptor(m.first(slot.index), N));
    wait_products<0>();
    pin(dk), pin(dv), pin(narrowed);
    release(m.empty(slot.index), place);
    slot.step();
  }
  release(m.own_empty(), place);
  put_tile<C>(a, job, place, a.dk, job.kv, dk, a.scale);
  put_tile<C>(a, job, place, a.dv, job.kv, dv, 1.0f);
}

// ---- By queries ----------------------------------------------------------------------------------------------------
// base: for rows i and i + 8.
template <int N> __device__ __forceinline__ void weigh_queries(float (&s)[N], const float (&base)[2], float scale) {
#pragma unroll
  for (int i = 0; i < N; ++i) s[i] = exp2_of(fmaf(s[i], scale, base[i / 2 % 2]));
}
template <int N>
__device__ __forceinline__ void slope_queries(float (&dp)[N], const float (&weights)[N], const float (&delta)[2]) {
#pragma unroll
  for (int i = 0; i < N; ++i) dp[i] = weights[i] * (dp[i] - delta[i / 2 % 2]);
}

template <class C> struct QueriesTile {
  const BackwardArgs& a;
  const BackwardShared<C>& m;
  const BackwardJob& job;
  const HopperPlace& place;
  std::uint64_t q, dout;
  float scale, base[2], delta[2];
  int far;  // the first key that the group's last query sees

  // Hides the keys of tile j that lie before the rows' documents and windows.
  __device__ __forceinline__ void hide(float (&s)[C::others / 2], int j) const {
    if (j * C::others < far) hide_before(s, a, job.b, job.row + place.row(), j * C::others + 2 * (place.lane % 4));
  }
};

// Sums up dq over tiles of keys j, j - 1 .. job.from. Tile j is at `slot`, and dp has its slopes.
template <class C> __device__ __forceinline__ void sum_up(const QueriesTile<C>& of, int j, Slot<C::stages>& slot,
                                                          float (&s)[C::others / 2], float (&dp)[C::others / 2],
                                                          float (&dq)[C::D / 2]) {
  constexpr int D = C::D, N = C::others;
  const auto& m = of.m;
  unsigned slopes[N / 16][4];
  narrow<N>(slopes, dp);
#pragma unroll 1
  for (; j > of.job.from; --j) {
    Slot<C::stages> next = slot;
    next.step();
    await(m.first_full(next.index), next.parity);
    pin(s), pin(dp);
    fence_products();
    score<D, N>(s, of.q, C::rows, rows_descriptor(m.first(next.index)));
    mix<D, N>(dq, slopes, columns_descriptor(m.first(slot.index), N));
    await(m.second_full(next.index), next.parity);
    fence_products();
    score<D, N>(dp, of.dout, C::rows, rows_descriptor(m.second(next.index)));
    wait_products<2>();
    pin(s);
    of.hide(s, j - 1);
    weigh_queries(s, of.base, of.scale);
    pin(s);
    await(m.second_full(next.index), next.parity);  // ends at once; keeps ptxas from moving the wait forward
    wait_products<0>();
    pin(dp), pin(s), pin(slopes);
    release(m.empty(slot.index), of.place);
    slot = next;
    slope_queries(dp, s, of.delta);
    narrow<N>(slopes, dp);
  }
  release(m.own_empty(), of.place);
  fence_products();
  mix<D, N>(dq, slopes, columns_descriptor(m.first(slot.index), N));
  wait_products<0>();
  pin(dq), pin(slopes);
}
// The same with fewer registers; less work overlaps with the products that read slopes.
template <class C> __device__ __forceinline__ void sum_up_tight(const QueriesTile<C>& of, int j, Slot<C::stages>& slot,
                                                                float (&s)[C::others / 2], float (&dp)[C::others / 2],
                                                                float (&dq)[C::D / 2]) {
  constexpr int D = C::D, N = C::others;
  const auto& m = of.m;
  narrow_in_place(dp);
#pragma unroll 1
  for (; j > of.job.from; --j) {
    Slot<C::stages> next = slot;
    next.step();
    pin(dp);
    fence_products();
    mix_in_place<D, N>(dq, dp, columns_descriptor(m.first(slot.index), N));
    await(m.first_full(next.index), next.parity);
    pin(s);
    fence_products();
    score<D, N>(s, of.q, C::rows, rows_descriptor(m.first(next.index)));
    await(m.second_full(next.index), next.parity);
    wait_products<1>();  // for dq's product: dp is free
    pin(dp);
    release(m.empty(slot.index), of.place);
    fence_products();
    score<D, N>(dp, of.dout, C::rows, rows_descriptor(m.second(next.index)));
    slot = next;
    wait_products<1>();
    pin(s);
    of.hide(s, j - 1);
    weigh_queries(s, of.base, of.scale);
    pin(s);
    await(m.second_full(slot.index), slot.parity);  // ends at once; keeps ptxas from moving the wait forward
    wait_products<0>();
    pin(dp), pin(s);
    slope_queries(dp, s, of.delta);
    narrow_in_place(dp);
  }
  release(m.own_empty(), of.place);
  pin(dp);
  fence_products();
  mix_in_place<D, N>(dq, dp, columns_descriptor(m.first(slot.index), N));
  wait_products<0>();
  pin(dq), pin(dp);
}

// A tile of queries.
template <class C>
requires(!C::by_keys) __device__ __forceinline__
    void work_on(const BackwardArgs& a, const BackwardShared<C>& m, const BackwardJob& job, const HopperPlace& place,
                 std::uint32_t parity, Slot<C::stages>& slot) {
  constexpr int D = C::D, N = C::others;
  const int own = job.row + 64 * place.group;
  QueriesTile<C> of{a,
                    m,
                    job,
                    place,
                    rows_descriptor(m.own_first() + place.group * 64 * panel_row_bytes),
                    rows_descriptor(m.own_second() + place.group * 64 * panel_row_bytes),
                    a.scale * log2_e,
                    {},
                    {},
                    first_key(a, job.b, own + 63)};
  float s[N / 2], dp[N / 2], dq[D / 2];
  PerQuery<D> rows;
  rows.take(a, job, place);
  await(m.own_first_full(), parity);
  int j = job.to - 1;
  for (; j > own / N; --j) {  // keys that only other groups see
    await(m.first_full(slot.index), slot.parity);
    await(m.second_full(slot.index), slot.parity);
    release(m.empty(slot.index), place);
    slot.step();
  }
  await(m.first_full(slot.index), slot.parity);
  pin(s);
  fence_products();
  score<D, N>(s, of.q, C::rows, rows_descriptor(m.first(slot.index)));
  await(m.own_second_full(), parity);
  await(m.second_full(slot.index), slot.parity);
  pin(dp);
  fence_products();
  score<D, N>(dp, of.dout, C::rows, rows_descriptor(m.second(slot.index)));
  await(m.second_full(slot.index), slot.parity);  // ends at once; keeps the sums behind it
  rows.finish(a, place, of.base, of.delta);
  wait_products<1>();
  pin(s);
  hide_later(s, job.row + place.row() - j * N - 2 * (place.lane % 4));
  of.hide(s, j);
  weigh_queries(s, of.base, of.scale);
  pin(s);
  await(m.second_full(slot.index), slot.parity);  // ends at once; keeps ptxas from moving the wait forward
  wait_products<0>();
  pin(dp), pin(s);
  slope_queries(dp, s, of.delta);
  clear(dq);
  pin(dq);
  if constexpr (C::tight) sum_up_tight<C>(of, j, slot, s, dp, dq);
  else sum_up<C>(of, j, slot, s, dp, dq);
  release(m.empty(slot.index), place);
  slot.step();
  put_tile<C>(a, job, place, a.dq, job.h, dq, a.scale);
}

// ---- Blocks --------------------------------------------------------------------------------------------------------
template <class C> __device__ __forceinline__ void multiply_jobs(const BackwardArgs& a, const BackwardShared<C>& m,
                                                                 const HopperPlace& place) {
  Slot<C::stages> slot;
  for (std::uint32_t parity = 0;; parity ^= 1) {
    await(m.job_full(), parity);
    const int number = *m.job(), end = *m.limit();
    if (number < 0) break;
    BackwardJob job = job_of<C>(a, number);
    limit<C>(job, end);
    work_on<C>(a, m, job, place, parity, slot);
  }
}

// Grid: persistent blocks, at most one for each multiprocessor.
template <class C> __global__ void __launch_bounds__(C::threads, 1)
    attention_hopper_backward_kernel(const __grid_constant__ BackwardMaps maps,
                                     const __grid_constant__ BackwardArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  const BackwardShared<C> m(memory);
  if (threadIdx.x == 0) m.set_barriers();
  __syncthreads();
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < 4) {
    give_registers<C::copying_registers>();
    if (warp == 0) copy_jobs<C>(maps, a, m, static_cast<int>(threadIdx.x));
  } else {
    take_registers<C::multiplying_registers>();
    multiply_jobs<C>(a, m, {warp / 4 - 1, warp % 4, static_cast<int>(threadIdx.x) % 32});
  }
}

template <class C> bool maps_of(BackwardMaps& maps, const AttentionBackwardArgs& a) {
  const ConstMat &first = C::by_keys ? a.k : a.q, &second = C::by_keys ? a.v : a.dout;
  const ConstMat &other_first = C::by_keys ? a.q : a.k, &other_second = C::by_keys ? a.dout : a.v;
  return map_of(maps.own_first, first, a.sequence, C::rows) && map_of(maps.own_second, second, a.sequence, C::rows) &&
         map_of(maps.other_first, other_first, a.sequence, C::others) &&
         map_of(maps.other_second, other_second, a.sequence, C::others);
}

template <class C>
void launch(const AttentionBackwardArgs& a, const BackwardMaps& maps, BackwardArgs args, int* taken, void* stream) {
  args.row_tiles = static_cast<int>((a.sequence + C::rows - 1) / C::rows);
  const auto others = C::by_keys ? a.sequence * (a.heads / a.kv_heads) : a.sequence * a.kv_heads / a.heads;
  args.heads_at_once = heads_at_once(std::int64_t{4} * C::D * others, heads_of<C>(args));
  args.taken = taken;
  const int jobs = jobs_of<C>(args), most = multiprocessors(), blocks = most < jobs ? most : jobs;
  TRAINYARD_LAUNCH_SHARED(attention_hopper_backward_kernel<C>, C::shared_bytes, blocks, C::threads, stream, maps, args);
}

template <int D> bool backward(const AttentionBackwardArgs& a, void* stream, const char*& failure) {
  BackwardMaps by_queries, by_keys;
  if (!maps_of<ByQueries<D>>(by_queries, a) || !maps_of<ByKeys<D>>(by_keys, a)) return false;
  BackwardArgs h{};
  h.batch = static_cast<int>(a.batch), h.sequence = static_cast<int>(a.sequence);
  h.heads = static_cast<int>(a.heads), h.kv_heads = static_cast<int>(a.kv_heads);
  h.scale = static_cast<float>(a.scale), h.document_start = a.document_start, h.reach = static_cast<int>(a.reach);
  h.out = a.out, h.lse = a.lse, h.dout = a.dout, h.dq = a.dq, h.dk = a.dk, h.dv = a.dv;
  h.delta = reinterpret_cast<float*>(a.scratch);
  int* const taken = reinterpret_cast<int*>(h.delta + a.batch * a.heads * a.sequence);
  TRAINYARD_LAUNCH(attention_none_taken_kernel, false, 1, 2, stream, taken);
  launch<ByQueries<D>>(a, by_queries, h, taken, stream);
  launch<ByKeys<D>>(a, by_keys, h, taken + 1, stream);
  failure = launch_failure();
  return true;
}

}  // namespace

bool gpu::attention_backward_hopper(const AttentionBackwardArgs& a, void* stream, const char*& failure) {
  if (!hopper_fits(a)) return false;
  return a.head_dim == 64 ? backward<64>(a, stream, failure) : backward<128>(a, stream, failure);
}

}  // namespace trainyard::kernels
