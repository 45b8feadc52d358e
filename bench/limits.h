// What this machine can do, measured once in the run whose figures are compared with it.
#pragma once

#include <benchmark/benchmark.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace trainyard::bench {

template <class Work> double best_seconds(int tries, const Work& work) {
  double best = 1e30;
  for (int i = 0; i < tries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// FLOP/s of the library's f32 product of 2048 x 2048 matrices on `threads` threads: large enough that nothing but arithmetic counts.
inline double product_limit(int threads) {
  static std::map<int, double> known;
  if (known.contains(threads)) return known[threads];
  constexpr std::int64_t n = 2048;
  std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f), c(n * n);
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const double seconds = best_seconds(5, [&] { dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n); });
  omp_set_num_threads(before);
  return known[threads] = 2.0 * n * n * n / seconds;
}

// Bytes a second, read and written both counted, of copying 256 MiB on `threads` threads.
inline double copy_limit(int threads) {
  static std::map<int, double> known;
  if (known.contains(threads)) return known[threads];
  constexpr std::int64_t bytes = std::int64_t{256} << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const double seconds = best_seconds(5, [&] {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; ++t) std::memcpy(to.data() + bytes / threads * t, from.data() + bytes / threads * t, static_cast<std::size_t>(bytes / threads));
  });
  return known[threads] = 2.0 * static_cast<double>(bytes) / seconds;
}

// Bytes a second of writing 256 MiB to a file in `folder` and syncing it, and of reading it back (from the page cache, where checkpoints just written are).
struct DiskLimit {
  double write = 0, read = 0;
};
inline DiskLimit disk_limit(const std::string& folder) {
  constexpr std::int64_t bytes = std::int64_t{256} << 20, part = 8 << 20;
  std::vector<char> buffer(part, 3);
  const auto path = folder + "/limit";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0) throw std::runtime_error("cannot write " + path);
  DiskLimit limit;
  limit.write = bytes / best_seconds(2, [&] {
    for (std::int64_t at = 0; at < bytes; at += part)
      if (::pwrite(file, buffer.data(), part, at) != part) throw std::runtime_error("cannot write " + path);
    ::fdatasync(file);
  });
  limit.read = bytes / best_seconds(2, [&] {
    for (std::int64_t at = 0; at < bytes; at += part)
      if (::pread(file, buffer.data(), part, at) != part) throw std::runtime_error("cannot read " + path);
  });
  ::close(file);
  ::unlink(path.c_str());
  return limit;
}

// `work` an iteration (FLOP or bytes) as a rate, and as a fraction of `limit` (the same unit a second).
inline void report(benchmark::State& state, const char* unit, double work, double limit) {
  state.counters[unit] = benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["of_limit"] = benchmark::Counter(work / limit, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace trainyard::bench
