// Work that falls into parts, on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace trainyard::checkpoint {

// Calls work(part, thread) for the parts [0, count), which are begun in ascending order; `thread` counts from 0. After
// an exception no part is begun any more; once all threads have ended it is thrown here, of several that of the first
// of them. The caller's thread
// is the first of them. There are fewer threads where the process may not open the files of all (each has a few).
void for_each_part(std::size_t count, int threads, const std::function<void(std::size_t part, int thread)>& work);

// How many files this process may have open (RLIMIT_NOFILE), within reason.
std::int64_t most_open_files();

}  // namespace trainyard::checkpoint
