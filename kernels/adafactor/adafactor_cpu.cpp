// Adafactor's passes over elements. Sums of columns go by tiles, whose squares share a window of digits as those of a
// block of a plain sum do (square_digits_cpu.h); only that each column has sums of its own.
#include "kernels/adafactor/adafactor_args.h"

#include "kernels/square_sum/square_digits_cpu.h"
#include "kernels/update/rounded_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int64_t row_block = 4096;                 // elements of a block in memory order
constexpr int64_t tile_rows = 256, tile_cols = 32;  // 256 digits are the most that double adds exactly

// Calls body(row, column, at, n) for the runs of elements [from, to) that lie in one row. `at` counts from the first
// element of the part.
template <class Body>
inline void for_each_run(int64_t first, int64_t cols, int64_t from, int64_t to, const Body& body) {
  int64_t row = (first + from) / cols, column = (first + from) % cols;
  while (from < to) {
    const int64_t n = cols - column < to - from ? cols - column : to - from;
    body(row, column, from, n);
    from += n, ++row, column = 0;
  }
}

// Integers: any order gives the same sum.
inline void add_shared(const int64_t* own, int64_t* limbs) {
  for (int k = 0; k < square_sum_limbs; ++k)
    if (own[k] != 0) {
#pragma omp atomic
      limbs[k] += own[k];
    }
}

// The squares of elements [from, to) by row. Rows that reach beyond these elements are shared with other threads.
void add_rows(const AdafactorLinesArgs& a, int64_t from, int64_t to) {
  float scaled[row_block];
  const float scale = a.scale;
  const float* __restrict gradient = a.gradient + from;
#pragma omp simd
  for (int64_t i = 0; i < to - from; ++i) scaled[i] = gradient[i] * scale;
  for_each_run(a.first, a.cols, from, to, [&](int64_t row, int64_t, int64_t at, int64_t n) {
    if (n == a.cols) return add_square_block(scaled + (at - from), n, a.rows + row * square_sum_limbs);
    int64_t own[square_sum_limbs] = {};
    add_square_block(scaled + (at - from), n, own);
    add_shared(own, a.rows + row * square_sum_limbs);
  });
}

struct Tile {
  float x[tile_rows][tile_cols];
  int64_t rows, width;        // width: a multiple of 16
  std::uint32_t most, least;  // magnitudes as bits; `least` is of those that are not zero
};

// As add_digits, with sums for each column of the tile.
template <int count> void add_tile(const Tile& t, int low, int64_t (*sums)[square_sum_limbs]) {
  const double scale = scale_to_digits<count>(low);
  for (int64_t from = 0; from < t.width; from += square_lanes) {
    double own[count][square_lanes] = {};
    for (int64_t i = 0; i < t.rows; ++i) add_lanes<count>(t.x[i] + from, scale, own);
    for (int k = 0; k < count; ++k)
      for (int l = 0; l < square_lanes; ++l)
        if (own[k][l] != 0) add_total(static_cast<int64_t>(own[k][l]), low + k * digit_bits + 320, sums[from + l]);
  }
}

void add_tile(const Tile& t, int64_t (*sums)[square_sum_limbs]) {
  if (t.most == 0) return;
  if (const SquareDigits digits(t.most, t.least); digits.count > 0) {
    if (digits.count == 2) return add_tile<2>(t, digits.low, sums);
    if (digits.count == 3) return add_tile<3>(t, digits.low, sums);
    return add_tile<4>(t, digits.low, sums);
  }
  for (int64_t i = 0; i < t.rows; ++i)
    for (int64_t j = 0; j < t.width; ++j) {
      const double v = t.x[i][j];
      if (!(v - v == 0)) sums[j][square_digits] += 1;
      else if (v != 0) add_slowly(v * v, sums[j]);
    }
}

// Reads columns [column, column + n) of rows [row, row + t.rows); zeros stand for elements that are not of the part.
void read_tile(const AdafactorLinesArgs& a, int64_t row, int64_t column, int64_t n, Tile& t) {
  const float scale = a.scale;
  std::uint32_t most = 0, least = unbounded_magnitude;
  for (int64_t i = 0; i < t.rows; ++i) {
    const int64_t at = (row + i) * a.cols + column - a.first;  // of the part
    const int64_t from = at >= 0 ? 0 : -at < n ? -at : n, end = a.n - at < 0 ? 0 : a.n - at < n ? a.n - at : n;
    const float* __restrict gradient = a.gradient;
    float* __restrict x = t.x[i];
    if (from > 0 || end < t.width) set_zero(x, t.width);
#pragma omp simd reduction(max : most) reduction(min : least)
    for (int64_t j = from; j < end; ++j) {
      x[j] = gradient[at + j] * scale;
      const std::uint32_t bits = float_to_bits(x[j]) & 0x7fffffffu;
      most = bits > most ? bits : most;
      const std::uint32_t nonzero = bits == 0 ? unbounded_magnitude : bits;
      least = nonzero < least ? nonzero : least;
    }
  }
  t.most = most, t.least = least;
}

// The tiles [from, to) of columns, down the rows of the part first.
void add_columns(const AdafactorLinesArgs& a, int64_t from, int64_t to) {
  const int64_t first_row = a.first / a.cols, rows = (a.first + a.n - 1) / a.cols - first_row + 1;
  const int64_t down = (rows + tile_rows - 1) / tile_rows;
  Tile t;
  int64_t sums[tile_cols][square_sum_limbs];
  while (from < to) {
    const int64_t column = from / down * tile_cols, n = a.cols - column < tile_cols ? a.cols - column : tile_cols;
    const int64_t end = (from / down + 1) * down < to ? (from / down + 1) * down : to;
    set_zero(&sums[0][0], tile_cols * square_sum_limbs);
    t.width = (n + square_lanes - 1) / square_lanes * square_lanes;
    for (; from < end; ++from) {
      const int64_t row = from % down * tile_rows;
      t.rows = rows - row < tile_rows ? rows - row : tile_rows;
      read_tile(a, first_row + row, column, n, t);
      add_tile(t, sums);
    }
    for (int64_t j = 0; j < n; ++j) add_shared(sums[j], a.columns + (column + j) * square_sum_limbs);
  }
}

// u of one element. A function of its own, so that the element of each lane stays in registers.
[[gnu::always_inline]] inline RoundedFloat adafactor_direction(float gradient, float scale, float row, float column) {
  using F = RoundedFloat;
  return F(gradient) * F(scale) * F(row) * F(column);
}

// Calls body(i, u) for elements [from, to) in lanes. Args has the members of AdafactorSquaresArgs that u needs.
template <class Args, class Body>
[[gnu::always_inline]] inline void for_each_direction(const Args& a, int64_t from, int64_t to, const Body& body) {
  const float* __restrict gradient = a.gradient;
  const float* __restrict row_factors = a.row_factors;
  const float* __restrict column_factors = a.column_factors;
  const float scale = a.scale;
  if (a.cols == 1) {
    const float column = column_factors[0];
    row_factors += a.first;
#pragma omp simd
    for (int64_t i = from; i < to; ++i) body(i, adafactor_direction(gradient[i], scale, row_factors[i], column));
    return;
  }
  for_each_run(a.first, a.cols, from, to, [&](int64_t row, int64_t column, int64_t at, int64_t n) {
    const float factor = row_factors[row];
    const float* __restrict columns = column_factors + column;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) body(at + i, adafactor_direction(gradient[at + i], scale, factor, columns[i]));
  });
}

void add_adafactor_block(const AdafactorSquaresArgs& all, int64_t from, int64_t to, int64_t* sums) {
  const auto a = all;
  float updates[row_block];
  float* __restrict out = updates;
  for_each_direction(a, from, to, [=](int64_t i, RoundedFloat u) { out[i - from] = u.v; });
  add_square_block(a.parameter + from, to - from, sums);
  add_square_block(updates, to - from, sums + square_sum_limbs);
}

void adafactor_block(const AdafactorUpdateArgs& all, int64_t from, int64_t to) {
  using F = RoundedFloat;
  const auto a = all;
  float* __restrict p = a.parameter;
  const float keep = a.keep, step_size = a.step_size;
  for_each_direction(a, from, to, [=](int64_t i, F u) { p[i] = (F(p[i]) * F(keep) - F(step_size) * u).v; });
  if (a.working.empty()) return;
  with_narrow_type(a.working.type,
                   [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + from, p + from, to - from); });
}

inline int64_t row_blocks(int64_t n) { return (n + row_block - 1) / row_block; }
inline int64_t end_of_block(int64_t b, int64_t n) { return (b + 1) * row_block < n ? (b + 1) * row_block : n; }

}  // namespace

void adafactor_lines_cpu(const AdafactorLinesArgs& a) {
  const int64_t blocks = row_blocks(a.n);
  const int64_t rows = (a.first + a.n - 1) / a.cols - a.first / a.cols + 1;
  const int64_t tiles = (rows + tile_rows - 1) / tile_rows * ((a.cols + tile_cols - 1) / tile_cols);
#pragma omp parallel num_threads(a.threads) if (blocks > 4)
  {
#pragma omp for schedule(static) nowait
    for (int64_t b = 0; b < blocks; ++b) add_rows(a, b * row_block, end_of_block(b, a.n));
    constexpr int64_t at_once = 4;  // tiles
#pragma omp for schedule(static) nowait
    for (int64_t t = 0; t < tiles; t += at_once) add_columns(a, t, t + at_once < tiles ? t + at_once : tiles);
  }
}

void adafactor_squares_cpu(const AdafactorSquaresArgs& a) {
  const int64_t blocks = row_blocks(a.n);
#pragma omp parallel num_threads(a.threads) if (blocks > 4)
  {
    int64_t own[2 * square_sum_limbs] = {};
#pragma omp for schedule(static) nowait
    for (int64_t b = 0; b < blocks; ++b) add_adafactor_block(a, b * row_block, end_of_block(b, a.n), own);
    add_shared(own, a.squares);
    add_shared(own + square_sum_limbs, a.squares + square_sum_limbs);
  }
}

void adafactor_update_cpu(const AdafactorUpdateArgs& a) {
  const int64_t blocks = row_blocks(a.n);
#pragma omp parallel for num_threads(a.threads) schedule(static) if (blocks > 4)
  for (int64_t b = 0; b < blocks; ++b) adafactor_block(a, b * row_block, end_of_block(b, a.n));
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
