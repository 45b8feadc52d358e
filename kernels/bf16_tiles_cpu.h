// Products of bf16 by tiles, as the instruction tdpbf16ps of AMX computes them (Intel 64 and IA-32 Architectures
// Software Developer's Manual). A tile has 16 x 16 sums in f32, and one instruction adds 32 steps to it. For each sum,
// the even steps make a fresh sum from zero in ascending order, and the odd steps make another. Each step is one
// multiply-add with a single rounding to nearest even. The two sums are added, and the result is added to the tile.
// Denormal operands and results count as zero of their sign, as in kernels/bf16_pairs_cpu.h. Included only by
// *_cpu.cpp, once per instruction set. TRAINYARD_BF16_TILES says which instruction sets multiply by tiles: with the
// instruction, or without it by the same arithmetic step by step.
#pragma once

#include "kernels/pack_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// Whether products of this type go by tiles. Their operands are packed by pairs, too.
template <class T> constexpr bool tiled = false;

#if defined(TRAINYARD_BF16_TILES)
template <> constexpr bool tiled<b16> = true;

// Rows of a tile, and 32-bit words in a row. A word is an f32 sum, or steps 2 q and 2 q + 1 of an operand.
constexpr int tile_side = 16;

#if defined(__AMX_BF16__)

// Configures the thread's eight tiles, and releases them when it is destroyed. Every use of tiles lies within its
// lifetime.
class TilesOfThread {
 public:
  TilesOfThread() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes_of_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } const all;
    static_assert(sizeof all == 64);
    asm volatile("ldtilecfg %0" : : "m"(all));
  }
  ~TilesOfThread() { asm volatile("tilerelease"); }
  TilesOfThread(const TilesOfThread&) = delete;
  TilesOfThread& operator=(const TilesOfThread&) = delete;
};

// The tiles, addressed by number. Their contents belong to the thread. Rows in memory are `pitch` words apart.
struct Tiles {
  template <int t> void clear() { asm volatile("tilezero %%tmm%c0" : : "i"(t)); }
  template <int t> void load(const float* from, int64_t pitch) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(4 * pitch), "i"(t) : "memory");
  }
  template <int t> void save(float* to, int64_t pitch) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(4 * pitch), "i"(t) : "memory");
  }
  // sums += left * right. Row i of `left` holds the words of row i; row q of `right` holds word q of every column.
  template <int sums, int left, int right> void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(left), "i"(right));
  }
};

#else

// As with the instructions, a thread may multiply tiles only while it has a TilesOfThread.
thread_local bool tiles_are_set_up = false;
struct TilesOfThread {
  TilesOfThread() { tiles_are_set_up = true; }
  ~TilesOfThread() { tiles_are_set_up = false; }
  TilesOfThread(const TilesOfThread&) = delete;
  TilesOfThread& operator=(const TilesOfThread&) = delete;
};

class Tiles {
 public:
  template <int t> void clear() { memset(tile_[t], 0, sizeof tile_[t]); }
  template <int t> void load(const float* from, int64_t pitch) {
    for (int r = 0; r < tile_side; ++r) memcpy(tile_[t][r], from + r * pitch, sizeof tile_[t][r]);
  }
  template <int t> void save(float* to, int64_t pitch) {
    for (int r = 0; r < tile_side; ++r) memcpy(to + r * pitch, tile_[t][r], sizeof tile_[t][r]);
  }
  template <int sums, int left, int right> void multiply() {
    if (!tiles_are_set_up) __builtin_trap();
    static const bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_fma) with_fma(tile_[sums], tile_[left], tile_[right]);
    else step_by_step(tile_[sums], tile_[left], tile_[right]);
  }

 private:
  using Tile = float[tile_side][tile_side];
  // The same steps compiled with FMA. Without that instruction set a multiply-add is a call of a library function.
  [[gnu::target("avx2,fma")]] static void with_fma(Tile& sums, const Tile& left, const Tile& right) {
    step_by_step(sums, left, right);
  }
  static inline __attribute__((always_inline)) void step_by_step(Tile& sums, const Tile& left, const Tile& right) {
    for (int i = 0; i < tile_side; ++i) {
      float even[tile_side] = {}, odd[tile_side] = {};
      for (int q = 0; q < tile_side; ++q) {
        const auto x = float_to_bits(left[i][q]);
        const float first = operand(x << 16), second = operand(x & 0xffff0000u);
        for (int j = 0; j < tile_side; ++j) {
          const auto y = float_to_bits(right[q][j]);
          even[j] = multiply_add(first, operand(y << 16), even[j]);
          odd[j] = multiply_add(second, operand(y & 0xffff0000u), odd[j]);
        }
      }
      for (int j = 0; j < tile_side; ++j)
        sums[i][j] = without_denormals(sums[i][j] + without_denormals(even[j] + odd[j]));
    }
  }
  static inline __attribute__((always_inline)) float operand(std::uint32_t bits) {
    return without_denormals(bits_to_float(bits));
  }
  float tile_[8][tile_side][tile_side];
};

#endif

// A tile's rows and words of an operand, `pitch` words from one row to the next. A whole tile is read in place. Where
// rows or words are missing, it is copied to `room` and filled up with zeros.
struct TileRows {
  const float* first;
  int64_t pitch;
};
__attribute__((noinline)) TileRows beside_zeros(const float* from, int64_t pitch, int64_t rows, int64_t words,
                                                float* room) {
  memset(room, 0, tile_side * tile_side * sizeof(float));
  for (int64_t r = 0; r < rows && r < tile_side; ++r)
    for (int64_t q = 0; q < words && q < tile_side; ++q) room[r * tile_side + q] = from[r * pitch + q];
  return {room, tile_side};
}
inline TileRows whole_tile_of(const float* from, int64_t pitch, int64_t rows, int64_t words, float* room) {
  if (rows < tile_side || words < tile_side) [[unlikely]]
    return beside_zeros(from, pitch, rows, words, room);
  return {from, pitch};
}

// Transposes a tile of 16 rows and 16 words. words(q, r) returns word q of as many rows, from row r on, as a register
// has lanes. Row r of `out` gets the words of row r.
template <class Words> inline void turn_tile(const Words& words, float* __restrict out) {
  if constexpr (lanes == tile_side) {
    Vec v[lanes];
#pragma GCC unroll 16
    for (int q = 0; q < lanes; ++q) v[q] = words(q, 0);
    turn_over<lanes / 2>(v);
#pragma GCC unroll 16
    for (int r = 0; r < lanes; ++r) put(out + r * lanes, v[r]);
  } else {
    for (int r = 0; r < tile_side; r += lanes)
      for (int q = 0; q < tile_side; ++q) {
        const Vec v = words(q, r);
        for (int l = 0; l < lanes; ++l) out[(r + l) * tile_side + q] = v[l];
      }
  }
}

#else

struct TilesOfThread {};

#endif

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
