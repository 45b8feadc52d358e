// Bytes of scratch that kernels need, as pure formulas: kernels check them, the planner adds them up.
#pragma once

#include "libtrain/base/aligned.h"

#include <algorithm>
#include <cstdint>

namespace trainyard::plan {

// Blocking of the matrix product: part of the numerics (gemm_block_k) and of the memory plan.
inline constexpr std::int64_t gemm_block_k = 384, gemm_block_m = 2016, gemm_block_n = 2048;

// Packed blocks of both operands, and an f32 block of the result where it is kept in bf16. `element` is 4 for f32 and
// bf16 inputs, 8 for f64.
constexpr std::int64_t gemm_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k, bool bf16_result) {
  const auto mb = std::min(base::round_up(m, 84), gemm_block_m), nb = std::min(base::round_up(n, 32), gemm_block_n),
             kb = std::min(k, gemm_block_k);
  return base::aligned(mb * kb * 4) + base::aligned(nb * kb * 4) + (bf16_result ? base::aligned(mb * nb * 4) : 0);
}

// A product in lanes on the CPU (linear_forward_lanes, linear_backward_input_lanes in kernels/linear): of m x n over k,
// the sum of what its `parts` are summed over. bf16_result: the result is bf16, not f32. Beside what a product takes,
// blocks of the result in f32 hold the sums of lanes that wait for a neighbour: one for each level of the tree (one for
// a left fold), one less where a lane is a single block. 1 lane: as gemm_scratch_bytes.
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
                                               std::int64_t lanes, bool bf16_result) {
  const auto mb = std::min(base::round_up(m, 84), gemm_block_m), nb = std::min(base::round_up(n, 32), gemm_block_n);
  return gemm_scratch_bytes(m, n, k, bf16_result) + lane_gemm_temporaries(k, parts, lanes) * base::aligned(mb * nb * 4);
}

// Column sums over n rows: one partial row per block of 64 rows, f32 (f64 for f64).
inline constexpr std::int64_t column_sum_rows = 64;
constexpr std::int64_t column_sum_scratch_bytes(std::int64_t n, std::int64_t columns, std::int64_t element_bytes) {
  return base::aligned((n + column_sum_rows - 1) / column_sum_rows * columns * element_bytes);
}

// Products of `groups` groups of `rows` rows in all, however they are shared out (kernels/grouped_linear): rows of
// groups that are packed together, where each group begins a panel of 14, 6 or 4 rows (by tiles 32: fewer groups have
// room, in the same memory); and for each thread a strip of
// columns.
inline constexpr std::int64_t grouped_strip = 128;
constexpr std::int64_t grouped_block_rows(std::int64_t rows, std::int64_t groups) {
  return std::min(base::round_up(rows + 13 * std::min(rows, groups), 84), gemm_block_m);
}
constexpr std::int64_t grouped_strip_bytes(std::int64_t n, std::int64_t k) {
  return base::aligned(std::min(base::round_up(n, 32), grouped_strip) * std::min(k, gemm_block_k) * 4);
}
// Forward and input gradient: rows x n over k, the sum of what the `parts` are summed over. Beside what is packed,
// blocks of the result as in a product in lanes.
constexpr std::int64_t grouped_linear_scratch_bytes(std::int64_t rows, std::int64_t groups, std::int64_t n,
                                                    std::int64_t k, std::int64_t parts, std::int64_t lanes,
                                                    bool bf16_result, int threads) {
  const auto mb = grouped_block_rows(rows, groups), nb = std::min(base::round_up(n, 32), gemm_block_n);
  return base::aligned(mb * std::min(k, gemm_block_k) * 4) + threads * grouped_strip_bytes(n, k) +
         (lane_gemm_temporaries(k, parts, lanes) + (bf16_result ? 1 : 0)) * base::aligned(mb * nb * 4);
}
// Weight and bias gradients, out x in.
constexpr std::int64_t grouped_linear_weight_scratch_bytes(std::int64_t rows, std::int64_t out, std::int64_t in,
                                                           int threads) {
  const auto mb = std::min(base::round_up(out, 84), gemm_block_m);
  return base::aligned(mb * std::min(rows, gemm_block_k) * 4) + threads * grouped_strip_bytes(in, rows);
}

// The backward pass of a norm: two column sums. Forward needs none.
constexpr std::int64_t norm_partial_rows(std::int64_t n) { return 2 * ((n + column_sum_rows - 1) / column_sum_rows); }
constexpr std::int64_t norm_scratch_bytes(std::int64_t n, std::int64_t h, std::int64_t element_bytes) {
  return base::aligned(norm_partial_rows(n) * h * element_bytes);
}
// Where `ranks` share the rows, n for each: the partial sums of this rank, and those of all.
constexpr std::int64_t norm_shared_scratch_bytes(std::int64_t n, std::int64_t ranks, std::int64_t h,
                                                 std::int64_t element_bytes) {
  return norm_scratch_bytes(n, h, element_bytes) + base::aligned(ranks * norm_partial_rows(n) * h * element_bytes);
}
// What ranks that share a vocabulary find out about c tokens, of this rank and of all: `shards` of each rank (one, or
// one for each of its lanes where the number of all lanes is no power of two).
constexpr std::int64_t cross_entropy_shared_scratch_bytes(std::int64_t c, std::int64_t ranks, std::int64_t shards,
                                                          std::int64_t element_bytes) {
  return base::aligned(shards * 3 * c * element_bytes) + base::aligned(ranks * shards * 3 * c * element_bytes);
}
// A table of cosines and sines for each position.
constexpr std::int64_t rotary_scratch_bytes(std::int64_t n, std::int64_t head_dim) {
  return base::aligned(n * head_dim * 8);
}

// Attention works through as many (sequence, key-value head) as there are threads at a time, `groups` of them in all,
// and needs for each rows in f32: its keys and values in forward, in backward the gradients of the queries of its
// `group` heads. Each thread has tiles of 64 queries by 64 keys. Linear in the sequence. f64 needs less.
constexpr std::int64_t attention_rows(std::int64_t sequence) { return base::round_up(sequence, 64); }
constexpr std::int64_t attention_width(std::int64_t head_dim) { return base::round_up(head_dim, 16); }
constexpr std::int64_t attention_slots(std::int64_t groups, int threads) {
  return std::min<std::int64_t>(groups, threads);
}
constexpr std::int64_t attention_packed_bytes(std::int64_t sequence, std::int64_t head_dim) {
  return base::aligned(attention_rows(sequence) * attention_width(head_dim) * 4);
}
constexpr std::int64_t attention_forward_shared_bytes(std::int64_t sequence, std::int64_t head_dim) {
  return 2 * attention_packed_bytes(sequence, head_dim);
}
constexpr std::int64_t attention_forward_thread_bytes(std::int64_t head_dim) {
  return 3 * attention_packed_bytes(64, head_dim) + (64 + 5) * base::aligned(64 * 4);
}
constexpr std::int64_t attention_forward_scratch_bytes(std::int64_t sequence, std::int64_t head_dim,
                                                       std::int64_t groups, int threads) {
  return attention_slots(groups, threads) * attention_forward_shared_bytes(sequence, head_dim) +
         threads * attention_forward_thread_bytes(head_dim);
}
// For each tile of queries of a head three numbers beside its rows: what it sees, and whose turn it is to add.
constexpr std::int64_t attention_backward_shared_bytes(std::int64_t sequence, std::int64_t head_dim,
                                                       std::int64_t group) {
  return group * (attention_packed_bytes(sequence, head_dim) + base::aligned(attention_rows(sequence) * 4) +
                  base::aligned(attention_rows(sequence) / 64 * 12));
}
constexpr std::int64_t attention_backward_thread_bytes(std::int64_t head_dim) {
  return 7 * attention_packed_bytes(64, head_dim) + 2 * 64 * base::aligned(64 * 4);
}
constexpr std::int64_t attention_backward_scratch_bytes(std::int64_t sequence, std::int64_t head_dim,
                                                        std::int64_t group, std::int64_t groups, int threads) {
  return attention_slots(groups, threads) * attention_backward_shared_bytes(sequence, head_dim, group) +
         threads * attention_backward_thread_bytes(head_dim);
}

// Scores of every head over t keys; element_bytes of the accumulation dtype.
constexpr std::int64_t cached_attention_scratch_bytes(std::int64_t t, std::int64_t heads, std::int64_t element_bytes) {
  return base::aligned(t * heads * element_bytes);
}

// On a GPU: what cuBLASLt may use for one product. Rotary positions need nothing.
inline constexpr std::int64_t gpu_gemm_scratch_bytes = std::int64_t{32} << 20;
inline constexpr std::int64_t gpu_head_size_limit = 128;  // of attention on a GPU
// A product in lanes on a GPU. `products`: how many calls of cuBLASLt a lane takes; with 1 lane parts that are
// neighbours in memory are one, with several each part is one. The sum of each lane is kept (f32, f64 for f64); of a
// single lane only where several products are added up for a bf16 result.
constexpr std::int64_t gpu_lane_gemm_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t products,
                                                   std::int64_t lanes, bool bf16_result,
                                                   std::int64_t accumulation_bytes) {
  const auto shards = lanes > 1 ? lanes : products > 1 && bf16_result ? 1 : 0;
  return gpu_gemm_scratch_bytes + base::aligned(shards * m * n * accumulation_bytes);
}
// Products of groups on a GPU: sums of lanes that wait for a neighbour, f32 (f64 for f64), one for each level of the
// tree (one for a left fold). Weight gradients need nothing.
constexpr std::int64_t gpu_grouped_linear_scratch_bytes(std::int64_t rows, std::int64_t n, std::int64_t lanes,
                                                        std::int64_t accumulation_bytes) {
  return base::aligned(lane_levels_that_wait(lanes) * rows * n * accumulation_bytes);
}
inline constexpr std::int64_t gpu_attention_forward_scratch_bytes = base::aligned(4);  // a counter
// The products out . dout of every query, f32 (f64 for f64), and two counters.
constexpr std::int64_t gpu_attention_backward_scratch_bytes(std::int64_t batch, std::int64_t sequence,
                                                            std::int64_t heads, std::int64_t element_bytes) {
  return base::aligned(batch * heads * sequence * element_bytes + 8);
}

}  // namespace trainyard::plan
