// How many threads a process should have, from the cores that it and its neighbours may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trainyard::base {

// A machine and some of its cores: what the affinity mask of a process allows. Plain memory, so that ranks can send it
// to one another.
struct CoreMask {
  std::uint64_t machine = 0;              // from its name: masks of different machines have nothing in common
  std::array<std::uint64_t, 64> cores{};  // bit c % 64 of word c / 64 is core c
};

CoreMask own_core_mask();

// Threads for the process of masks[own], where each core is divided equally among those processes of its machine that
// may use it; at least one. So a mask that a launcher gave one process alone is its share, and one that several hold is
// divided.
int fair_threads(std::span<const CoreMask> masks, std::size_t own);

// As many as a program without neighbours is asked for; 0: one for each core that it may use.
int threads_or_all(int asked);

}  // namespace trainyard::base
