// Alignment: every arena allocation, and every part of scratch memory, begins and ends at a multiple of 64 bytes.
#pragma once

#include <cstdint>

namespace trainyard::base {

inline constexpr std::int64_t alignment_bytes = 64;
constexpr std::int64_t round_up(std::int64_t n, std::int64_t grain) { return (n + grain - 1) / grain * grain; }
constexpr std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, alignment_bytes); }

}  // namespace trainyard::base
