// Threads that take one part after the other.
#include "libtrain/checkpoint/parts.h"

#include "libtrain/base/thread.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <sys/resource.h>
#include <vector>

namespace trainyard::checkpoint {

std::int64_t most_open_files() {
  constexpr std::int64_t plenty = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > static_cast<rlim_t>(plenty)) return plenty;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

void for_each_part(std::size_t count, int threads, const std::function<void(std::size_t part, int thread)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take = [&](int thread) {
    try {
      for (auto part = next++; part < count; part = next++) work(part, thread);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  constexpr std::int64_t files_of_a_thread = 6, other_files = 32;
  const auto affordable = (most_open_files() - other_files) / files_of_a_thread;
  const auto wanted =
      std::min(static_cast<std::size_t>(std::max<std::int64_t>(1, std::min<std::int64_t>(threads, affordable))),
               std::max<std::size_t>(1, count));
  others.reserve(wanted);
  try {
    for (std::size_t t = 1; t < wanted; ++t)
      others.push_back(base::start_thread("checkpoint", [&take, t] { take(static_cast<int>(t)); }));
  } catch (const std::exception&) {  // no thread left, or no memory for one: those that there are do the work
  }
  take(0);
  for (auto& thread : others) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace trainyard::checkpoint
