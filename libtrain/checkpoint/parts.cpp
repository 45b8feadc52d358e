// Threads that take parts one after the other.
#include "libtrain/checkpoint/parts.h"

#include "libtrain/base/index.h"
#include "libtrain/base/thread.h"

#include <algorithm>
#include <atomic>
#include <sys/resource.h>

namespace trainyard::checkpoint {

std::int64_t most_open_files() {
  constexpr std::int64_t plenty = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > static_cast<rlim_t>(plenty)) return plenty;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

void for_each_part(std::size_t count, int threads, const std::function<void(std::size_t part, int thread)>& work) {
  constexpr std::int64_t files_of_a_thread = 6, other_files = 32;
  const auto affordable = (most_open_files() - other_files) / files_of_a_thread;
  const auto wanted = std::min(base::size(std::max<std::int64_t>(1, std::min<std::int64_t>(threads, affordable))),
                               std::max<std::size_t>(1, count));
  std::atomic<std::size_t> next{0};
  base::run_shares("checkpoint", static_cast<int>(wanted), [&](int thread) {
    try {
      for (auto part = next++; part < count; part = next++) work(part, thread);
    } catch (...) {
      next = count;  // no thread begins another part
      throw;
    }
  });
}

}  // namespace trainyard::checkpoint
