// The tiles of queries and keys that attention works on, and the parts of a tile that a list may leave out.
#pragma once

#include <cstdint>

namespace trainyard::plan {

inline constexpr std::int64_t attention_tile = 64, attention_part = 16;  // in queries, and in keys
inline constexpr std::uint16_t whole_tile = 0xffff;                      // all parts present (TileList)

}  // namespace trainyard::plan
