// Limits that come from the arithmetic of the kernels, for checks of a plan.
#pragma once

#include "libtrain/base/dropout_counter.h"

#include <cstdint>

namespace trainyard::plan {

// Limits with dropout on the embedding or on a branch. Dropout of attention probabilities has counters of 2^32 queries,
// 2^34 keys and any sample. The limit values themselves are allowed.
inline constexpr std::int64_t most_hidden_with_dropout = base::dropout_channels;     // 65536
inline constexpr std::int64_t most_sequence_with_dropout = base::dropout_positions;  // 1048576
// 2^30 samples: steps * global batch of a run; beyond, masks repeat
inline constexpr std::int64_t most_samples_with_dropout = base::dropout_samples;

// Limits of the gates' random numbers: positions, and channels (kernels/gate/gate.h).
inline constexpr std::int64_t most_sequence_of_gates = std::int64_t{1} << 20,
                              most_hidden_with_jitter = std::int64_t{1} << 14;

}  // namespace trainyard::plan
