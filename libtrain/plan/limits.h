// Limits that come from the arithmetic of the kernels, for whoever judges a plan.
#pragma once

#include "libtrain/base/dropout_counter.h"

#include <cstdint>

namespace trainyard::plan {

// With dropout on the embedding or on a branch (not on attention probabilities, whose counters hold 2^32 queries, 2^34
// keys and any sample). Each value is still allowed.
inline constexpr std::int64_t most_hidden_with_dropout = base::dropout_channels;     // 65536
inline constexpr std::int64_t most_sequence_with_dropout = base::dropout_positions;  // 1048576
inline constexpr std::int64_t most_samples_with_dropout =
    base::dropout_samples;  // 2^30: steps * global batch of a run; beyond, masks come back

// Random numbers of the gates of experts: of positions, and of channels (kernels/gate/gate.h).
inline constexpr std::int64_t most_sequence_of_gates = std::int64_t{1} << 20,
                              most_hidden_with_jitter = std::int64_t{1} << 14;

}  // namespace trainyard::plan
