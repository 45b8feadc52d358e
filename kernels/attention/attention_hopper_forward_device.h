// Attention's forward pass on Hopper, shared by its threads: the layout of shared memory, the queries that a block
// works on, and the order of waits. For attention_hopper_forward_cuda.cu.
#pragma once

#include "kernels/attention/attention_hopper_device.h"

namespace trainyard::kernels {
namespace {

// A block has one warpgroup that only copies, and groups that compute products, each for 64 queries. Shared memory
// holds `stages` tiles of keys and as many of values. turns: groups issue their products in turn, so that one weighs
// scores while another's products run. These are the fastest settings on an H100.
template <int D> struct Hopper {
  static_assert(D == 64 || D == 128);
  static constexpr int groups = D == 128 ? 2 : 3, keys = 128, stages = 2, rows = 64 * groups;
  static constexpr bool turns = D == 128;
  static_assert(!turns || rows == keys);  // otherwise a group has tiles without products, and misses its turn
  static constexpr int threads = 128 * (groups + 1), warps = 4 * groups;  // warps: those that compute products
  static constexpr int copying_registers = groups == 2 ? 24 : 32, multiplying_registers = groups == 2 ? 240 : 160;
  static constexpr int q_bytes = rows * D * 2, tile_bytes = keys * D * 2;
  static constexpr int barriers_at = q_bytes + 2 * stages * tile_bytes, job_at = barriers_at + 8 * (2 + 4 * stages);
  static constexpr int shared_bytes = job_at + 16 + SharedTiles::alignment;
};

struct HopperMaps {
  TensorMap q, k, v;
};

struct HopperArgs {
  int batch, sequence, heads, heads_of_key;  // heads_of_key: query heads that share a key-value head
  int row_tiles, heads_at_once;
  float scale;  // turns products into powers of 2
  const std::int32_t* document_start;
  Mat out, lse;
  int* taken;  // starts at 0: how many jobs the blocks have taken, beyond the first job of each block
  int reach;   // AttentionArgs::reach
};

// ---- Jobs: a head's tile of queries --------------------------------------------------------------------------------
struct Job {
  int b, h, kv, i0, tiles;  // tiles: of keys, from the sequence's first up to the queries' own
};
TRAINYARD_ANYWHERE inline int jobs_of(const HopperArgs& a) { return a.row_tiles * a.batch * a.heads; }

// Takes as many heads at a time as have keys and values that fit the L2 cache together. Within these heads the longest
// rows come first.
template <int D> __device__ __forceinline__ Job job_of(const HopperArgs& a, int number) {
  const int section = number / (a.heads_at_once * a.row_tiles), first = section * a.heads_at_once;
  const int left = a.batch * a.heads - first, here = left < a.heads_at_once ? left : a.heads_at_once;
  const int within = number - first * a.row_tiles, head = first + within % here;
  const int i0 = (a.row_tiles - 1 - within / here) * Hopper<D>::rows;
  const int end = i0 + Hopper<D>::rows < a.sequence ? i0 + Hopper<D>::rows : a.sequence;
  const int h = head % a.heads;
  return {head / a.heads, h, h / a.heads_of_key, i0, (end - 1) / Hopper<D>::keys + 1};
}

// ---- Shared memory -------------------------------------------------------------------------------------------------
// q [rows][D] | k [stages][keys][D] | v [stages][keys][D] | barriers | the job of q, or -1 at the end | the first tile
// of keys that any of its queries sees.
template <int D> struct HopperShared : SharedTiles {
  using C = Hopper<D>;
  using SharedTiles::SharedTiles;
  __device__ __forceinline__ std::uint32_t q() const { return at; }
  __device__ __forceinline__ std::uint32_t k(int slot) const { return at + C::q_bytes + slot * C::tile_bytes; }
  __device__ __forceinline__ std::uint32_t v(int slot) const { return k(C::stages + slot); }
  __device__ __forceinline__ std::uint32_t barrier(int i) const { return at + C::barriers_at + 8 * i; }
  __device__ __forceinline__ std::uint32_t q_full() const { return barrier(0); }
  __device__ __forceinline__ std::uint32_t q_empty() const { return barrier(1); }
  __device__ __forceinline__ std::uint32_t k_full(int slot) const { return barrier(2 + slot); }
  __device__ __forceinline__ std::uint32_t k_empty(int slot) const { return barrier(2 + C::stages + slot); }
  __device__ __forceinline__ std::uint32_t v_full(int slot) const { return barrier(2 + 2 * C::stages + slot); }
  __device__ __forceinline__ std::uint32_t v_empty(int slot) const { return barrier(2 + 3 * C::stages + slot); }
  __device__ __forceinline__ volatile int* job() const { return reinterpret_cast<volatile int*>(base + C::job_at); }
  __device__ __forceinline__ volatile int* first_tile() const { return job() + 1; }

  // Called by one thread. Full barriers wait for the copying thread, empty barriers for every warp that computes
  // products.
  __device__ void set_barriers() const {
    set_barrier(q_full(), 1), set_barrier(q_empty(), C::warps);
    for (int slot = 0; slot < C::stages; ++slot) {
      set_barrier(k_full(slot), 1), set_barrier(v_full(slot), 1);
      set_barrier(k_empty(slot), C::warps), set_barrier(v_empty(slot), C::warps);
    }
    publish_barriers();
  }
};

// ---- The thread that copies ----------------------------------------------------------------------------------------
// Blocks take job after job. Copies of a job are in this order: q, k[n-1], k[n-2], v[n-1], k[n-3], v[n-2] .. k[0],
// v[1], v[0].
template <int D>
__device__ __forceinline__ void copy_jobs(const HopperMaps& maps, const HopperArgs& a, const HopperShared<D>& m) {
  using C = Hopper<D>;
  prefetch_map(&maps.q), prefetch_map(&maps.k), prefetch_map(&maps.v);
  Slot<C::stages> k, v;
  const int jobs = jobs_of(a);
  int number = static_cast<int>(blockIdx.x);
  std::uint32_t turn = 0;
  for (; number < jobs; ++turn) {
    const int next = static_cast<int>(gridDim.x) + atomicAdd(a.taken, 1);
    const Job job = job_of<D>(a, number);
    const int first = first_key(a, job.b, job.i0) / C::keys;
    await(m.q_empty(), (turn & 1) ^ 1);
    *m.job() = number;
    *m.first_tile() = first;
    copy_tile<D>(&maps.q, m.q(), m.q_full(), C::rows, job.h, job.i0, job.b);
    for (int j = job.tiles; j >= first; --j) {
      if (j > first) {
        await(m.k_empty(k.index), k.parity ^ 1);
        copy_tile<D>(&maps.k, m.k(k.index), m.k_full(k.index), C::keys, job.kv, (j - 1) * C::keys, job.b);
        k.step();
      }
      if (j < job.tiles) {
        await(m.v_empty(v.index), v.parity ^ 1);
        copy_tile<D>(&maps.v, m.v(v.index), m.v_full(v.index), C::keys, job.kv, j * C::keys, job.b);
        v.step();
      }
    }
    number = next;
  }
  await(m.q_empty(), (turn & 1) ^ 1);
  *m.job() = -1;
  arrive(m.q_full());
}

// ---- Groups that compute products ----------------------------------------------------------------------------------
// Group g waits for its turn at barrier 1 + g.
template <int D> struct Turns {
  using C = Hopper<D>;
  static constexpr int threads = 256;
  int group;
  __device__ __forceinline__ void begin() const {
    if (C::turns && group == C::groups - 1) arrive_at(1, threads);
  }
  __device__ __forceinline__ void take() const {
    if (C::turns) meet_at(1 + group, threads);
  }
  __device__ __forceinline__ void pass() const {
    if (C::turns) arrive_at(1 + (group + 1 == C::groups ? 0 : group + 1), threads);
  }
  __device__ __forceinline__ void end() const {
    if (C::turns && group == 0) meet_at(1, threads);
  }
};

}  // namespace
}  // namespace trainyard::kernels
