// Formulas for the bytes of scratch that the kernels of a mixture of experts need (see plan/blocks/scratch.h).
#pragma once

#include "libtrain/base/aligned.h"

#include <cstdint>

namespace trainyard::plan {

// For the losses, a gate adds up the numbers of so many tokens as a block, then adds the blocks. Part of the numerics.
inline constexpr std::int64_t gate_block_tokens = 64;
constexpr std::int64_t gate_blocks(std::int64_t tokens) { return (tokens + gate_block_tokens - 1) / gate_block_tokens; }

// gate_forward on the CPU. For each block, in f64: sums of probabilities, z loss and entropy, one token's exponentials,
// and the numbers by which the token chooses. For each choice: a score, a key and its place in the order of experts.
// For each expert: where its choices begin, with first and second choices apart. Backward needs no scratch.
// element_bytes: 4, or 8 for f64.
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

// On a GPU: sums of blocks, numbers of each token, and the number of choices of each expert in a block.
inline constexpr std::int64_t gate_token_numbers = 4;
constexpr std::int64_t gpu_gate_scratch_bytes(std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
                                              std::int64_t element_bytes) {
  return base::aligned(gate_blocks(tokens) * (experts + 2) * 8) + base::aligned(tokens * gate_token_numbers * 8) +
         base::aligned(gate_blocks(tokens) * 2 * experts * 4) +
         gate_choice_scratch_bytes(tokens, experts, top_k, element_bytes);
}

}  // namespace trainyard::plan
