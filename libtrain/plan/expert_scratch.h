// Bytes of scratch that the kernels of a mixture of experts need, as pure formulas (see plan/scratch.h).
#pragma once

#include "libtrain/base/aligned.h"

#include <cstdint>

namespace trainyard::plan {

// A gate adds up what its tokens say for the losses in blocks of so many, then the blocks: part of the numerics.
inline constexpr std::int64_t gate_block_tokens = 64;
constexpr std::int64_t gate_blocks(std::int64_t tokens) { return (tokens + gate_block_tokens - 1) / gate_block_tokens; }

// gate_forward on the CPU. For each block sums of probabilities, z loss and entropy, one token's exponentials and the
// numbers by which it chooses, in f64; for each choice a score, a key and its place in the order of experts; where the
// choices of each expert begin, first and second ones apart. The backward pass needs none. element_bytes: 4, 8 for f64.
constexpr std::int64_t gate_block_numbers(std::int64_t experts, std::int64_t top_k) { return 2 * experts + 2 + top_k; }
constexpr std::int64_t gate_choice_scratch_bytes(std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
                                                 std::int64_t element_bytes) {
  return base::aligned(tokens * top_k * element_bytes) + base::aligned(tokens * top_k * 8) +
         base::aligned(tokens * top_k * 4) + base::aligned((2 * experts + 1) * 4);
}
constexpr std::int64_t gate_scratch_bytes(std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
                                          std::int64_t element_bytes) {
  return base::aligned(gate_blocks(tokens) * gate_block_numbers(experts, top_k) * 8) +
         gate_choice_scratch_bytes(tokens, experts, top_k, element_bytes);
}

// On a GPU: sums of blocks; what each token says of itself; how many choices of each expert a block has.
inline constexpr std::int64_t gate_token_numbers = 4;
constexpr std::int64_t gpu_gate_scratch_bytes(std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
                                              std::int64_t element_bytes) {
  return base::aligned(gate_blocks(tokens) * (experts + 2) * 8) + base::aligned(tokens * gate_token_numbers * 8) +
         base::aligned(gate_blocks(tokens) * 2 * experts * 4) +
         gate_choice_scratch_bytes(tokens, experts, top_k, element_bytes);
}

}  // namespace trainyard::plan
