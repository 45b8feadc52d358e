// Watches the heap of a test program: defines malloc and related functions for the whole process. Include it in one
// source file of a program, and not with sanitizers.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <malloc.h>

namespace heap {

// While `watching`, allocations of all threads are counted: all (`seen`), those above `limit_bytes` (`large`), and the
// largest size.
inline std::atomic<bool> watching{false};
inline std::atomic<std::int64_t> limit_bytes{4096}, seen{0}, large{0}, largest{0};
// Bytes that are allocated now, and the most that were allocated at once since the last restart_peak().
inline std::atomic<std::int64_t> live{0}, peak{0};

inline void restart_peak() { peak = live.load(); }

inline void raise(std::atomic<std::int64_t>& to, std::int64_t value) {
  auto before = to.load();
  while (value > before && !to.compare_exchange_weak(before, value)) {}
}

inline void* note(void* p, std::size_t bytes) {
  if (p != nullptr) raise(peak, live += static_cast<std::int64_t>(malloc_usable_size(p)));
  if (!watching.load(std::memory_order_relaxed)) return p;
  ++seen;
  large += static_cast<std::int64_t>(bytes) > limit_bytes;
  raise(largest, static_cast<std::int64_t>(bytes));
  return p;
}

inline void forget(void* p) {
  if (p != nullptr) live -= static_cast<std::int64_t>(malloc_usable_size(p));
}

}  // namespace heap

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) { return heap::note(__libc_malloc(bytes), bytes); }
void* calloc(std::size_t n, std::size_t bytes) { return heap::note(__libc_calloc(n, bytes), n * bytes); }
void* realloc(void* old, std::size_t bytes) {
  heap::forget(old);
  return heap::note(__libc_realloc(old, bytes), bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return heap::note(__libc_memalign(alignment, bytes), bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return heap::note(__libc_memalign(alignment, bytes), bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  *out = heap::note(__libc_memalign(alignment, bytes), bytes);
  return *out != nullptr ? 0 : ENOMEM;
}
void free(void* p) {
  heap::forget(p);
  __libc_free(p);
}
}
