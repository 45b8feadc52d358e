// Attention's forward pass on Hopper after Shah et al. (2024), "FlashAttention-3". While the tensor cores compute the
// scores of the next tile of keys and the products with this tile's values, the other units turn scores into weights.
// Queries see earlier keys of their document and window.
#include "kernels/attention/attention_hopper_forward_device.h"

namespace trainyard::kernels {
namespace {

struct Softmax {
  float top[2], sum[2], shrink[2];  // of queries i and i + 8; sum: over this lane's keys
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) top[half] = -INFINITY, sum[half] = 0;
  }
  // Scores become weights 2^(scale (s - the greatest so far)). `shrink` gets the factor for the earlier sums of values.
  // In the first tile every query sees a key, so the greatest score is finite.
  template <int N> __device__ __forceinline__ void weigh(float (&s)[N], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float best[2] = {top[half], s[2 * half + 1]};
#pragma unroll
      for (int n = 0; n < N / 4; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) best[e] = fmaxf(best[e], s[4 * n + 2 * half + e]);
      float most = fmaxf(best[0], best[1]);
#pragma unroll
      for (int step = 1; step < 4; step *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
      shrink[half] = exp2_of((top[half] - most) * scale);
      top[half] = most;
      const float base = most * scale;
      float part[2] = {0, 0};
#pragma unroll
      for (int n = 0; n < N / 4; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * n + 2 * half + e];
          x = exp2_of(fmaf(x, scale, -base));
          part[e] += x;
        }
      sum[half] = fmaf(sum[half], shrink[half], part[0] + part[1]);
    }
  }
  template <int N> __device__ __forceinline__ void apply(float (&o)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) o[i] *= shrink[i / 2 % 2];
  }
};

template <int D> __device__ __forceinline__ void finish(const HopperArgs& a, const Job& job, const HopperPlace& place,
                                                        const Softmax& softmax, const float (&o)[D / 2]) {
  const int t = place.lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = job.i0 + place.row() + 8 * half;
    float sum = softmax.sum[half];
#pragma unroll
    for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    put_row<D>(a.out, static_cast<std::int64_t>(job.b) * a.sequence + i, i < a.sequence, job.h * D, t, o, half,
               1.0f / sum);
    if (t == 0 && i < a.sequence)
      a.lse.row<float>(static_cast<std::int64_t>(job.b) * a.heads + job.h)[i] =
          (softmax.top[half] * a.scale + log2f(sum)) * ln_2;
  }
}

// One job of a group. s: products of a tile of keys, then weights; weights: the same, narrowed; o: sums of values.
template <int D> __device__ __forceinline__ void attend(const HopperArgs& a, const HopperShared<D>& m, const Job& job,
                                                        int first_tile, const HopperPlace& place, const Turns<D>& turns,
                                                        Slot<Hopper<D>::stages>& k, Slot<Hopper<D>::stages>& v) {
  constexpr int N = Hopper<D>::keys, rows = Hopper<D>::rows;
  const std::uint64_t q = rows_descriptor(m.q() + place.group * 64 * panel_row_bytes);
  const int own = job.i0 + 64 * place.group;  // this group's queries, all within one tile of keys
  const int far = first_key(a, job.b, own + 63);
  float s[N / 2], o[D / 2];
  unsigned weights[N / 16][4];
  Softmax softmax;
  softmax.clear();
  int j = job.tiles - 1;
  for (; j > own / N; --j) {  // keys that only other groups see
    await(m.k_full(k.index), k.parity);
    release(m.k_empty(k.index), place);
    k.step();
    await(m.v_full(v.index), v.parity);
    release(m.v_empty(v.index), place);
    v.step();
  }
  await(m.k_full(k.index), k.parity);
  fence_products();
  score<D, N>(s, q, rows, rows_descriptor(m.k(k.index)));
  wait_products<0>();
  pin(s);
  release(m.k_empty(k.index), place);
  k.step();
  hide_later(s, job.i0 + place.row() - j * N - 2 * (place.lane % 4));
  if (j * N < far) hide_before(s, a, job.b, job.i0 + place.row(), j * N + 2 * (place.lane % 4));
  softmax.weigh(s, a.scale);
  narrow<N>(weights, s);
  clear(o);
#pragma unroll 1
  for (; j > first_tile; --j) {
    await(m.k_full(k.index), k.parity);
    turns.take();
    pin(s), pin(o);
    fence_products();
    score<D, N>(s, q, rows, rows_descriptor(m.k(k.index)));
    await(m.v_full(v.index), v.parity);
    fence_products();
    mix<D, N>(o, weights, columns_descriptor(m.v(v.index), N));
    turns.pass();
    wait_products<1>();
    pin(s);
    release(m.k_empty(k.index), place);
    k.step();
    if (j * N - N < far) hide_before(s, a, job.b, job.i0 + place.row(), j * N - N + 2 * (place.lane % 4));
    softmax.weigh(s, a.scale);
    pin(s);                              // keeps the weights here, before the wait,
    await(m.v_full(v.index), v.parity);  // which ptxas would move forward but for this branch; it ends at once
    wait_products<0>();
    pin(o), pin(s);
    release(m.v_empty(v.index), place);
    v.step();
    softmax.apply(o);
    narrow<N>(weights, s);
  }
  release(m.q_empty(), place);
  await(m.v_full(v.index), v.parity);
  pin(o);
  fence_products();
  mix<D, N>(o, weights, columns_descriptor(m.v(v.index), N));
  wait_products<0>();
  pin(o);
  release(m.v_empty(v.index), place);
  v.step();
  finish<D>(a, job, place, softmax, o);
}

template <int D>
__device__ __forceinline__ void multiply_jobs(const HopperArgs& a, const HopperShared<D>& m, const HopperPlace& place) {
  Slot<Hopper<D>::stages> k, v;
  const Turns<D> turns{place.group};
  turns.begin();
  for (std::uint32_t turn = 0;; ++turn) {
    await(m.q_full(), turn & 1);
    const int number = *m.job(), first_tile = *m.first_tile();
    if (number < 0) break;
    attend<D>(a, m, job_of<D>(a, number), first_tile, place, turns, k, v);
  }
  turns.end();
}

// Grid: persistent blocks, at most one for each multiprocessor.
template <int D> __global__ void __launch_bounds__(Hopper<D>::threads, 1)
    attention_hopper_kernel(const __grid_constant__ HopperMaps maps, const __grid_constant__ HopperArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  const HopperShared<D> m(memory);
  if (threadIdx.x == 0) m.set_barriers();
  __syncthreads();
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < 4) {
    give_registers<Hopper<D>::copying_registers>();
    if (threadIdx.x == 0) copy_jobs<D>(maps, a, m);
  } else {
    take_registers<Hopper<D>::multiplying_registers>();
    multiply_jobs<D>(a, m, {warp / 4 - 1, warp % 4, static_cast<int>(threadIdx.x) % 32});
  }
}

template <int D> bool forward(const AttentionForwardArgs& a, void* stream, const char*& failure) {
  using C = Hopper<D>;
  HopperMaps maps;
  if (!map_of(maps.q, a.q, a.sequence, C::rows) || !map_of(maps.k, a.k, a.sequence, C::keys) ||
      !map_of(maps.v, a.v, a.sequence, C::keys))
    return false;
  HopperArgs h{};
  h.batch = static_cast<int>(a.batch), h.sequence = static_cast<int>(a.sequence);
  h.heads = static_cast<int>(a.heads), h.heads_of_key = static_cast<int>(a.heads / a.kv_heads);
  h.row_tiles = static_cast<int>((a.sequence + C::rows - 1) / C::rows),
  h.heads_at_once = heads_at_once(std::int64_t{4} * D * a.sequence * a.kv_heads / a.heads, a.batch * a.heads);
  h.scale = static_cast<float>(a.scale) * log2_e;
  h.document_start = a.document_start, h.out = a.out, h.lse = a.lse;
  h.taken = reinterpret_cast<int*>(a.scratch), h.reach = static_cast<int>(a.reach);
  const int jobs = jobs_of(h), most = multiprocessors(), blocks = most < jobs ? most : jobs;
  TRAINYARD_LAUNCH(attention_none_taken_kernel, false, 1, 1, stream, h.taken);
  TRAINYARD_LAUNCH_SHARED(attention_hopper_kernel<D>, C::shared_bytes, blocks, C::threads, stream, maps, h);
  failure = launch_failure();
  return true;
}

}  // namespace

bool gpu::attention_forward_hopper(const AttentionForwardArgs& a, void* stream, const char*& failure) {
  if (!hopper_fits(a)) return false;
  return a.head_dim == 64 ? forward<64>(a, stream, failure) : forward<128>(a, stream, failure);
}

}  // namespace trainyard::kernels
