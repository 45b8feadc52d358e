// How dropout of hidden states counts its random numbers: one counter for four neighbouring channels of one position of
// one sample.
#pragma once

#include <cstdint>

namespace trainyard::base {

// counter = S << dropout_sample_shift | t << dropout_position_shift | c / 4 for sample ordinal S, position t and
// channel c. Below the three limits, no two elements of a site share a counter, except the four channels of one block.
// Beyond a limit, a field overflows into the next one, and elements would silently be dropped together. This is part of
// the numerics (decision 9).
inline constexpr int dropout_position_shift = 14, dropout_sample_shift = 34;
inline constexpr std::int64_t dropout_channels = std::int64_t{4} << dropout_position_shift;  // c: hidden size
inline constexpr std::int64_t dropout_positions =
    std::int64_t{1} << (dropout_sample_shift - dropout_position_shift);  // t: tokens of a sequence
inline constexpr std::int64_t dropout_samples = std::int64_t{1} << (64 - dropout_sample_shift);  // S: samples of a run

}  // namespace trainyard::base
