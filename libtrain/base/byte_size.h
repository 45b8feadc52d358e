// Sizes in bytes as people write them.
#pragma once

#include "libtrain/base/range.h"

#include <cstdint>
#include <string>

namespace trainyard::base {

inline constexpr std::int64_t most_bytes = std::int64_t{1} << 62;
// The least limit of a rank's memory: a smaller number has lost its unit.
inline constexpr std::int64_t least_memory = 1'000'000;

// "80GB" (1e9), "512MiB" (2^20), "1000". `spelled` is what the user wrote before it ("--memory-limit"); UsageError
// names it, also when the size is not finite or outside of `range`.
std::int64_t parse_bytes(const std::string& text, const std::string& spelled,
                         Range<std::int64_t> range = {0, most_bytes});

}  // namespace trainyard::base
