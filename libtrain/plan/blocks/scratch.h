// Formulas for the bytes of scratch that kernels need. Kernels check them, and the planner adds them up.
#pragma once

#include "libtrain/base/aligned.h"

#include <algorithm>
#include <cstdint>

namespace trainyard::plan {

// Block sizes of the matrix product. They are part of the memory plan, and gemm_block_k is part of the numerics.
inline constexpr std::int64_t gemm_block_k = 384, gemm_block_m = 2016, gemm_block_n = 2048;

// Packed blocks of both operands, and for a narrow result an f32 block of it. Elements are 4 bytes, from f32 or bf16
// inputs.
constexpr std::int64_t gemm_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k, bool narrow_result) {
  const auto mb = std::min(base::round_up(m, 84), gemm_block_m), nb = std::min(base::round_up(n, 32), gemm_block_n),
             kb = std::min(k, gemm_block_k);
  return base::aligned(mb * kb * 4) + base::aligned(nb * kb * 4) + (narrow_result ? base::aligned(mb * nb * 4) : 0);
}

// A product in reduction lanes on the CPU (linear_forward_lanes, linear_backward_input_lanes in kernels/linear). The
// result is m x n; k is the sum of the inner widths of its `parts`. narrow_result: the result is narrow, not f32.
// Beside a product's scratch, it has f32 blocks of the result for the sums of lanes that wait for their neighbour. That
// is one block for each level of the tree (one for a left-to-right sum), and one less if a lane is a single block. With
// 1 lane it equals gemm_scratch_bytes.
constexpr std::int64_t lane_levels_that_wait(std::int64_t lanes) {
  std::int64_t levels = 0;
  if ((lanes & (lanes - 1)) != 0) levels = 1;
  else
    for (std::int64_t width = lanes; width > 1; width /= 2) ++levels;
  return levels;
}
constexpr std::int64_t lane_gemm_temporaries(std::int64_t k, std::int64_t parts, std::int64_t lanes) {
  const std::int64_t levels = lane_levels_that_wait(lanes);
  const bool single = parts == 1 && k / lanes <= gemm_block_k;
  return std::max<std::int64_t>(levels - single, 0);
}
constexpr std::int64_t lane_gemm_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t parts,
                                               std::int64_t lanes, bool narrow_result) {
  const auto mb = std::min(base::round_up(m, 84), gemm_block_m), nb = std::min(base::round_up(n, 32), gemm_block_n);
  return gemm_scratch_bytes(m, n, k, narrow_result) +
         lane_gemm_temporaries(k, parts, lanes) * base::aligned(mb * nb * 4);
}

// Newton-Schulz iterations of a matrix (kernels/newton_schulz): the norm's digits, two square matrices of its smaller
// side, the other copy of the matrix, and the scratch of the products.
constexpr std::int64_t newton_schulz_scratch_bytes(std::int64_t rows, std::int64_t cols,
                                                   std::int64_t scratch_of_products) {
  const auto side = std::min(rows, cols);
  return base::aligned(21 * 8) + 2 * base::aligned(side * side * 4) + base::aligned(rows * cols * 4) +
         scratch_of_products;
}
// The products of the CPU; a GPU's take gpu_gemm_scratch_bytes.
constexpr std::int64_t newton_schulz_products_bytes(std::int64_t rows, std::int64_t cols) {
  const auto side = std::min(rows, cols);
  return std::max({gemm_scratch_bytes(side, side, std::max(rows, cols), false),
                   gemm_scratch_bytes(side, side, side, false), gemm_scratch_bytes(rows, cols, side, false)});
}

// Column sums over n rows: one partial row for each block of 64 rows, in f32 (f64 for f64).
inline constexpr std::int64_t column_sum_rows = 64;
constexpr std::int64_t column_sum_scratch_bytes(std::int64_t n, std::int64_t columns, std::int64_t element_bytes) {
  return base::aligned((n + column_sum_rows - 1) / column_sum_rows * columns * element_bytes);
}

// Products of `groups` groups with `rows` rows in all, in any distribution (kernels/grouped_linear). Scratch holds the
// packed rows of several groups, where each group begins a panel of 14, 6 or 4 rows. With AMX tiles a panel has 32
// rows, and fewer groups fit into the same memory. Each thread also has a strip of columns.
inline constexpr std::int64_t grouped_strip = 128;
constexpr std::int64_t grouped_block_rows(std::int64_t rows, std::int64_t groups) {
  return std::min(base::round_up(rows + 13 * std::min(rows, groups), 84), gemm_block_m);
}
constexpr std::int64_t grouped_strip_bytes(std::int64_t n, std::int64_t k) {
  return base::aligned(std::min(base::round_up(n, 32), grouped_strip) * std::min(k, gemm_block_k) * 4);
}
// A grouped product: rows x n, with k the sum of the inner widths of the `parts`.
struct GroupedProduct {
  std::int64_t rows, groups, n, k, parts, lanes;
  bool narrow_result;
};
// Forward and input gradient. Beside packed operands, it has blocks of the result as for a product in lanes.
constexpr std::int64_t grouped_linear_scratch_bytes(const GroupedProduct& p, int threads) {
  const auto mb = grouped_block_rows(p.rows, p.groups), nb = std::min(base::round_up(p.n, 32), gemm_block_n);
  return base::aligned(mb * std::min(p.k, gemm_block_k) * 4) + threads * grouped_strip_bytes(p.n, p.k) +
         (lane_gemm_temporaries(p.k, p.parts, p.lanes) + (p.narrow_result ? 1 : 0)) * base::aligned(mb * nb * 4);
}
// Weight and bias gradients, out x in.
constexpr std::int64_t grouped_linear_weight_scratch_bytes(std::int64_t rows, std::int64_t out, std::int64_t in,
                                                           int threads) {
  const auto mb = std::min(base::round_up(out, 84), gemm_block_m);
  return base::aligned(mb * std::min(rows, gemm_block_k) * 4) + threads * grouped_strip_bytes(in, rows);
}

// Backward of a norm: two column sums. Forward needs none.
constexpr std::int64_t norm_partial_rows(std::int64_t n) { return 2 * ((n + column_sum_rows - 1) / column_sum_rows); }
constexpr std::int64_t norm_scratch_bytes(std::int64_t n, std::int64_t h, std::int64_t element_bytes) {
  return base::aligned(norm_partial_rows(n) * h * element_bytes);
}
// The same if `ranks` ranks divide the rows, n rows each: the partial sums of this rank, and those of all ranks.
constexpr std::int64_t norm_shared_scratch_bytes(std::int64_t n, std::int64_t ranks, std::int64_t h,
                                                 std::int64_t element_bytes) {
  return norm_scratch_bytes(n, h, element_bytes) + base::aligned(ranks * norm_partial_rows(n) * h * element_bytes);
}
// Statistics of c tokens, from this rank and from all ranks that share a vocabulary. A rank has `parts` of them: one,
// or one for each of its lanes if the number of all lanes is no power of two.
constexpr std::int64_t cross_entropy_shared_scratch_bytes(std::int64_t c, std::int64_t ranks, std::int64_t parts,
                                                          std::int64_t element_bytes) {
  return base::aligned(parts * 3 * c * element_bytes) + base::aligned(ranks * parts * 3 * c * element_bytes);
}
// A table of cosines and sines for each position; `width` channels of a head rotate.
constexpr std::int64_t rotary_scratch_bytes(std::int64_t n, std::int64_t width) { return base::aligned(n * width * 8); }

// CPU attention works on pairs of a sequence and a key-value head, `groups` in all, and on as many at a time as there
// are threads. Each needs rows in f32: in forward its `keys` keys and values, in backward the gradients of the queries
// of its `group` heads. Each thread has tiles of 64 queries by 64 keys. Linear in the sequence. f64 needs less.
constexpr std::int64_t attention_rows(std::int64_t sequence) { return base::round_up(sequence, 64); }
constexpr std::int64_t attention_width(std::int64_t head_dim) { return base::round_up(head_dim, 16); }
constexpr std::int64_t attention_slots(std::int64_t groups, int threads) {
  return std::min<std::int64_t>(groups, threads);
}
constexpr std::int64_t attention_packed_bytes(std::int64_t sequence, std::int64_t head_dim) {
  return base::aligned(attention_rows(sequence) * attention_width(head_dim) * 4);
}
constexpr std::int64_t attention_forward_shared_bytes(std::int64_t keys, std::int64_t head_dim) {
  return 2 * attention_packed_bytes(keys, head_dim);
}
constexpr std::int64_t attention_forward_thread_bytes(std::int64_t head_dim) {
  return 3 * attention_packed_bytes(64, head_dim) + (64 + 5) * base::aligned(64 * 4);
}
constexpr std::int64_t attention_forward_scratch_bytes(std::int64_t keys, std::int64_t head_dim, std::int64_t groups,
                                                       int threads) {
  return attention_slots(groups, threads) * attention_forward_shared_bytes(keys, head_dim) +
         threads * attention_forward_thread_bytes(head_dim);
}
// Each tile of queries of a head has three numbers beside its rows: what it sees, and which key tile adds next.
// distances: of queries and keys, if the gradient of a bias of relative positions is wanted; otherwise 0. A head then
// has a number for each, and one for the key tile that adds next. A thread has the sums of a tile of keys.
constexpr std::int64_t attention_backward_shared_bytes(std::int64_t sequence, std::int64_t head_dim, std::int64_t group,
                                                       std::int64_t distances = 0) {
  return group * (attention_packed_bytes(sequence, head_dim) + base::aligned(attention_rows(sequence) * 4) +
                  base::aligned(attention_rows(sequence) / 64 * 12) +
                  (distances > 0 ? base::aligned(distances * 4) + base::aligned(4) : 0));
}
constexpr std::int64_t attention_backward_thread_bytes(std::int64_t sequence, std::int64_t head_dim,
                                                       std::int64_t distances = 0) {
  return 7 * attention_packed_bytes(64, head_dim) + 2 * 64 * base::aligned(64 * 4) +
         (distances > 0 ? base::aligned((attention_rows(sequence) + 64) * 4) : 0);
}
constexpr std::int64_t attention_backward_scratch_bytes(std::int64_t sequence, std::int64_t head_dim,
                                                        std::int64_t group, std::int64_t groups, int threads,
                                                        std::int64_t distances = 0) {
  return attention_slots(groups, threads) * attention_backward_shared_bytes(sequence, head_dim, group, distances) +
         threads * attention_backward_thread_bytes(sequence, head_dim, distances);
}

// Scores of every head over t keys; element_bytes is of the accumulation dtype.
constexpr std::int64_t cached_attention_scratch_bytes(std::int64_t t, std::int64_t heads, std::int64_t element_bytes) {
  return base::aligned(t * heads * element_bytes);
}

// On a GPU: the scratch that cuBLASLt may use for one product. Rotary positions need none.
inline constexpr std::int64_t gpu_gemm_scratch_bytes = std::int64_t{32} << 20;
inline constexpr std::int64_t gpu_head_size_limit = 128;  // for attention on a GPU
// A product in lanes on a GPU. `products` is the number of cuBLASLt calls for a lane. With 1 lane, parts that are
// neighbours in memory are one call; with several lanes each part is one. The sum of each lane is kept (f32, f64 for
// f64). The sum of a single lane is kept only if several products are added for a narrow result.
constexpr std::int64_t gpu_lane_gemm_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t products,
                                                   std::int64_t lanes, bool narrow_result,
                                                   std::int64_t accumulation_bytes) {
  const auto kept_sums = lanes > 1 ? lanes : products > 1 && narrow_result ? 1 : 0;
  return gpu_gemm_scratch_bytes + base::aligned(kept_sums * m * n * accumulation_bytes);
}
// Grouped products on a GPU: the sums of lanes that wait for their neighbour, in f32 (f64 for f64). That is one for
// each level of the tree (one for a left-to-right sum). Weight gradients need none.
constexpr std::int64_t gpu_grouped_linear_scratch_bytes(std::int64_t rows, std::int64_t n, std::int64_t lanes,
                                                        std::int64_t accumulation_bytes) {
  return base::aligned(lane_levels_that_wait(lanes) * rows * n * accumulation_bytes);
}
inline constexpr std::int64_t gpu_attention_forward_scratch_bytes = base::aligned(4);  // a counter
// The products out . dout of every query, in f32 (f64 for f64), and two counters. With a bias of relative positions
// (distances above 0) also its gradient in each sequence.
constexpr std::int64_t gpu_attention_backward_scratch_bytes(std::int64_t batch, std::int64_t sequence,
                                                            std::int64_t heads, std::int64_t element_bytes,
                                                            std::int64_t distances = 0) {
  return base::aligned(batch * heads * sequence * element_bytes + 8) +
         base::aligned(batch * heads * distances * element_bytes);
}

}  // namespace trainyard::plan
