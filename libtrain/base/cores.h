// How many threads a process should have, from the cores that it and the machine's other ranks may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trainyard::base {

// A machine and the cores of it that a process may use: its affinity mask and its control group's quota. It is plain
// memory, so that ranks can send it to one another.
struct CoreMask {
  std::uint64_t machine = 0;              // hash of its name: masks of different machines share nothing
  std::array<std::uint64_t, 64> cores{};  // bit c % 64 of word c / 64 is core c
  double quota = 0;                       // processor seconds in a second; 0: no quota
  std::uint64_t quota_group = 0;          // processes of a machine with the same number share the quota
};

CoreMask own_core_mask();

// Threads for the process that masks[own] describes; at least 1. Each core is divided equally among the processes of
// its machine that may use it, and each quota among the processes that share it. So a mask that a launcher gave to one
// process alone is not divided. A fraction of a core gives no thread, because the other threads would wait for the one
// on it.
int fair_threads(std::span<const CoreMask> masks, std::size_t own);

// The first number in OMP_NUM_THREADS (its first level: OpenMP 5.2, section 21.1.2). 0 where it is unset or no number
// from 1 to 4096.
int threads_of_environment();

// Threads of a team that computes: `asked` if above 0, else OMP_NUM_THREADS, else `share`.
int team_threads(int asked, int share);

// Threads for work that only reads, writes and splits: `asked` if above 0. 0 means as many as a program without
// neighbours would get: one for each core that it may use.
int threads_or_all(int asked);

}  // namespace trainyard::base
