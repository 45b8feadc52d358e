// The ranges of a plan's decisions. The settings of train, the flags of partition-model and the keys of a plan share
// them.
#pragma once

#include "libtrain/base/range.h"

#include <cstdint>

namespace trainyard::plan::ranges {

inline constexpr base::Range<int> zero{0, 3};
inline constexpr base::Range<int> zero_group{0, 1 << 17};
inline constexpr base::Range<int> reduction_ranks_per_node{1, 1 << 17};
inline constexpr base::Range<int> ranks{1, 1 << 20};
inline constexpr base::Range<int> tensor{1, 4096};
inline constexpr base::Range<int> pipeline{1, 4096};
inline constexpr base::Range<int> expert_parallel{1, 1 << 17};
inline constexpr base::Range<int> expert_ranks_per_node{1, 1 << 17};
inline constexpr base::Range<int> expert_overlap_chunks{1, 64};
inline constexpr base::Range<std::int64_t> expert_capacity_buffer{0, 0x7fffffff};
inline constexpr base::Range<int> virtual_stages{1, 128};
inline constexpr base::Range<std::int64_t> lanes{0, 4096};
inline constexpr base::Range<int> gathered_layers{1, 64};
inline constexpr base::Range<int> threads{1, 4096};
inline constexpr base::Range<std::int64_t> global_batch{1, std::int64_t{1} << 32};
// Of a ramp of the global batch: its samples or tokens, and how often it grows. Their product fits 64 bits.
inline constexpr base::Range<std::int64_t> ramp_length{1, 100'000'000'000'000};
inline constexpr std::int64_t most_increments = std::int64_t{1} << 16;
inline constexpr base::Range<std::int64_t> micro_batch{1, std::int64_t{1} << 24};
inline constexpr base::Range<std::int64_t> local_accumulation{1, std::int64_t{1} << 24};
inline constexpr base::Range<std::int64_t> sequence{1, std::int64_t{1} << 24};
inline constexpr base::Range<std::int64_t> vocabulary{1, std::int64_t{1} << 24};
// Micro-batches of a step. Every rank keeps numbers for each of them.
inline constexpr std::int64_t most_micros = std::int64_t{1} << 20;

// Limits of whole numbers that a plan or a profile states: sums of a few, and products with a number of ranks, stay in
// range.
inline constexpr std::int64_t most_stated_bytes = std::int64_t{1} << 56, most_stated_ranks = std::int64_t{1} << 24;

}  // namespace trainyard::plan::ranges
