// A GPU runtime on host memory: every call is done when it returns. It lets the whole GPU path run, and be sanitized, on a machine without a GPU.
#include "libtrain/tensor/gpu_runtime.h"

#include <cstdlib>
#include <cstdio>
#include <cstring>

namespace trainyard::tensor {

namespace {

int device_count() {
  const char* n = std::getenv("TRAINYARD_EMULATED_GPUS");
  return n != nullptr ? std::atoi(n) : 1;
}
const char* describe(int, GpuInfo* out) {
  std::snprintf(out->name, sizeof out->name, "emulated on the host");
  out->total_bytes = out->free_bytes = std::int64_t{8} << 30;
  return nullptr;
}
// Memory is poisoned: what a kernel reads before anything wrote it is a NaN.
const char* allocate(int, std::int64_t bytes, void** out) {
  *out = std::aligned_alloc(256, static_cast<std::size_t>((bytes + 255) / 256 * 256));
  if (*out == nullptr) return "out of memory";
  std::memset(*out, 0xff, static_cast<std::size_t>(bytes));
  return nullptr;
}
void release(int, void* memory) { std::free(memory); }
const char* allocate_pinned(std::int64_t bytes, void** out) { return allocate(0, bytes, out); }
void release_pinned(void* memory) { std::free(memory); }
const char* make(int, void** out) {
  *out = std::malloc(1);
  return nullptr;
}
void drop(void* handle) { std::free(handle); }
const char* record(void*, void*) { return nullptr; }
const char* stream_wait(void*, void*) { return nullptr; }
int event_done(void*) { return 1; }
const char* nothing(void*) { return nullptr; }
const char* copy(void* to, const void* from, std::int64_t bytes, void*) {
  std::memmove(to, from, static_cast<std::size_t>(bytes));
  return nullptr;
}
const char* copy_rows(void* to, std::int64_t to_pitch, const void* from, std::int64_t from_pitch, std::int64_t row_bytes, std::int64_t rows, void*) {
  for (std::int64_t r = 0; r < rows; ++r)
    std::memmove(static_cast<char*>(to) + r * to_pitch, static_cast<const char*>(from) + r * from_pitch, static_cast<std::size_t>(row_bytes));
  return nullptr;
}
const char* set(void* to, int byte, std::int64_t bytes, void*) {
  std::memset(to, byte, static_cast<std::size_t>(bytes));
  return nullptr;
}

}  // namespace

const GpuRuntime& gpu_runtime() {
  static const GpuRuntime table{"emulated", device_count, describe,    allocate,   release, allocate_pinned, release_pinned, make,      drop, make,
                                drop,       record,       stream_wait, event_done, nothing, nothing,         copy,           copy_rows, set};
  return table;
}

}  // namespace trainyard::tensor
