// The tiles in which attention looks at pairs of queries and keys, and the parts of them that may be absent.
#pragma once

#include <cstdint>

namespace trainyard::plan {

inline constexpr std::int64_t attention_tile = 64, attention_part = 16;  // queries, and keys
inline constexpr std::uint16_t whole_tile = 0xffff;                      // all parts (TileList)

}  // namespace trainyard::plan
