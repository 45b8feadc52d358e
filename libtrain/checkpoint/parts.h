// Runs work that is divided into parts on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace trainyard::checkpoint {

// Calls work(part, thread) for the parts [0, count), which begin in ascending order; `thread` counts from 0. The
// calling thread is one of them, thread 0. After an exception no further part begins. Once all threads have ended, the
// exception of the lowest thread is thrown here. There are fewer threads if the process may not open enough files for
// all (each needs a few).
void for_each_part(std::size_t count, int threads, const std::function<void(std::size_t part, int thread)>& work);

// How many files this process may have open (RLIMIT_NOFILE), within reason.
std::int64_t most_open_files();

}  // namespace trainyard::checkpoint
