// Poisoned memory: a kernel that reads it before anything was written reads NaN. A large block is one file of such
// bytes, mapped repeatedly, so that only what is written takes pages and time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace emulator {

class Poisoned {
 public:
  // Returns nullptr if there is no memory. The block starts at a multiple of 256.
  void* reserve(std::int64_t bytes) {
    if (void* const mapped = bytes >= large ? map(static_cast<std::size_t>(bytes)) : nullptr) return mapped;
    void* const p = std::aligned_alloc(256, static_cast<std::size_t>((bytes + 255) / 256 * 256));
    if (p != nullptr) std::memset(p, 0xff, static_cast<std::size_t>(bytes));
    return p;
  }
  void release(void* p) {
    std::lock_guard lock(mutex_);
    const auto at = mapped_.find(p);
    if (at == mapped_.end()) return std::free(p);
    munmap(p, at->second);
    mapped_.erase(at);
  }

 private:
  static constexpr std::int64_t large = 1 << 20;
  static constexpr std::size_t file_bytes = 4 << 20;
  static int file() {
    static const int made = [] {
      const int f = memfd_create("poisoned", MFD_CLOEXEC);
      const std::vector<char> bytes(file_bytes, '\xff');
      return f >= 0 && write(f, bytes.data(), bytes.size()) == static_cast<ssize_t>(file_bytes) ? f : -1;
    }();
    return made;
  }
  void* map(std::size_t bytes) {
    if (file() < 0) return nullptr;
    void* const p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    for (std::size_t at = 0; at < bytes; at += file_bytes)
      if (mmap(static_cast<char*>(p) + at, std::min(bytes - at, file_bytes), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file(), 0) == MAP_FAILED) {
        munmap(p, bytes);
        return nullptr;
      }
    std::lock_guard lock(mutex_);
    mapped_[p] = bytes;
    return p;
  }
  std::mutex mutex_;
  std::map<void*, std::size_t> mapped_;
};

}  // namespace emulator
