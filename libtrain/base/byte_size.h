// Sizes in bytes as people write them.
#pragma once

#include "libtrain/base/range.h"

#include <cstdint>
#include <string>

namespace trainyard::base {

inline constexpr std::int64_t most_bytes = std::int64_t{1} << 62;
// The least memory limit of a rank. A smaller number is taken for one whose unit was forgotten.
inline constexpr std::int64_t least_memory = 1'000'000;

// Parses "80GB" (1e9), "512MiB" (2^20) or "1000". `spelled` is what the user wrote before the size ("--memory-limit").
// UsageError names it when the text is no size, is not finite, or is outside of `range`.
std::int64_t parse_bytes(const std::string& text, const std::string& spelled,
                         Range<std::int64_t> range = {0, most_bytes});

}  // namespace trainyard::base
