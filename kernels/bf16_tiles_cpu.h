// Products of bf16 by tiles, as the instruction tdpbf16ps of AMX has them (Intel 64 and IA-32 Architectures Software
// Developer's Manual): a tile of 16 x 16 sums in f32, to which 32 steps are added at once. Of each sum the steps with
// even numbers make one fresh sum from zero in ascending order, those with odd numbers another, each step one
// multiply-add with a single rounding to nearest even; then the two are added, and what they give is added to the tile.
// Operands and results that are denormal count as zero of their sign, as in kernels/bf16_pairs_cpu.h. Included only by
// *_cpu.cpp, once per instruction set; TRAINYARD_BF16_TILES says which have it, by the instruction or, where there is
// none, in steps of the same arithmetic.
#pragma once

#include "kernels/pack_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// Do products of this type go by tiles? Their operands are paired, too.
template <class T> constexpr bool tiled = false;

#if defined(TRAINYARD_BF16_TILES)
template <> constexpr bool tiled<b16> = true;

// Rows of a tile, and its words of 32 bits: sums in f32, or steps 2 q and 2 q + 1 of an operand.
constexpr int tile_side = 16;

#if defined(__AMX_BF16__)

// Around all use of tiles by a thread: sets its eight tiles up, and gives them back.
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

// The tiles, by number; what they hold is the thread's. Rows of memory are `pitch` words apart.
struct Tiles {
  template <int t> void clear() { asm volatile("tilezero %%tmm%c0" : : "i"(t)); }
  template <int t> void load(const float* from, int64_t pitch) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(4 * pitch), "i"(t) : "memory");
  }
  template <int t> void save(float* to, int64_t pitch) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(4 * pitch), "i"(t) : "memory");
  }
  // sums += left * right. Of left a row has the words of a row, of right the q-th word of each column.
  template <int sums, int left, int right> void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(left), "i"(right));
  }
};

#else

// As with the instructions, nobody multiplies tiles without it.
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
  // One and the same, but that a multiply-add is a function of the library without the instruction.
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

// As many of `rows` rows and `words` words, `pitch` words from one row to the next, as a tile has: where they lie, or,
// where some are missing, beside zeros in `room`.
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

// Turns 16 words of 16 rows over: words(q, r) has the q-th word of as many rows from r as a register has; of `out` each
// row has its words.
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
