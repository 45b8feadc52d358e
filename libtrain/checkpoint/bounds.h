// The largest numbers that a checkpoint may hold.
#pragma once

#include <cstdint>

namespace trainyard::checkpoint {

// Bounds under which sums of the numbers of manifests and indices cannot overflow.
inline constexpr std::int64_t largest_count = std::int64_t{1} << 56;
inline constexpr std::int64_t largest_ranks = std::int64_t{1} << 24;

}  // namespace trainyard::checkpoint
