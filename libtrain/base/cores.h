// How many threads a process should have, from the cores that it and its neighbours may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trainyard::base {

// A machine and some of its cores: what the affinity mask of a process allows, and the quota of its control group.
// Plain memory, so that ranks can send it to one another.
struct CoreMask {
  std::uint64_t machine = 0;              // from its name: masks of different machines have nothing in common
  std::array<std::uint64_t, 64> cores{};  // bit c % 64 of word c / 64 is core c
  double quota = 0;                       // so many cores' time; 0: all of it
  std::uint64_t quota_group = 0;          // processes of a machine with the same one share the quota
};

CoreMask own_core_mask();

// Threads for the process of masks[own], where each core is divided equally among those processes of its machine that
// may use it, and a quota among those that share it; at least one. So a mask that a launcher gave one process alone is
// its share, and one that several hold is divided. Of a quota's fraction of a core nobody gets a thread: the others
// would wait for it.
int fair_threads(std::span<const CoreMask> masks, std::size_t own);

// What OMP_NUM_THREADS asks for, at its first level (OpenMP 5.2, section 21.1.2); 0 where it is unset or no number from
// 1 to 4096.
int threads_of_environment();

// Of a team that computes: as many as asked for, else by the environment, else the share.
int team_threads(int asked, int share);

// Of threads that only read, write and split: as many as a program without neighbours is asked for; 0: one for each
// core that it may use.
int threads_or_all(int asked);

}  // namespace trainyard::base
