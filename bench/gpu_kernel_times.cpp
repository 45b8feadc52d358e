// Where the time of a GPU goes. CUDA loads this library into any program (CUDA_INJECTION64_PATH names it). The library
// adds up the device's time for each kernel, through CUPTI.
//
//   GPU_KERNEL_TIMES=table.txt GPU_KERNEL_TIMES_AFTER=3 CUDA_INJECTION64_PATH=.../libgpu_kernel_times.so train ...
//
// The table is rewritten each second, so a run may be ended from outside. AFTER: seconds from the first kernel on that
// are left out (default 0).
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

struct Sum {
  std::int64_t calls = 0, nanoseconds = 0;
};
struct Times {
  std::mutex mutex;
  std::map<std::string, Sum> by_name;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
  std::uint64_t first = 0, after = 0;
};
Times& times() {
  static auto* all = new Times;  // outlives the threads that write into it
  return *all;
}

std::string readable(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string out = status == 0 ? text : name;
  std::free(text);
  return out.substr(0, 120);
}

void add(const std::string& name, std::uint64_t start, std::uint64_t end) {
  auto& t = times();
  std::lock_guard lock(t.mutex);
  if (t.first == 0) t.first = start;
  if (start < t.first + t.after) return;
  auto& sum = t.by_name[name];
  ++sum.calls, sum.nanoseconds += static_cast<std::int64_t>(end - start);
  t.spans.emplace_back(start, end);
}

// Nanoseconds in which at least one of the spans was running.
std::uint64_t covered(std::vector<std::pair<std::uint64_t, std::uint64_t>> spans) {
  std::sort(spans.begin(), spans.end());
  std::uint64_t sum = 0, until = 0;
  for (const auto& [start, end] : spans) {
    if (end > until) sum += end - std::max(start, until);
    until = std::max(until, end);
  }
  return sum;
}

void write() {
  auto& t = times();
  std::lock_guard lock(t.mutex);
  if (t.spans.empty()) return;
  const char* path = std::getenv("GPU_KERNEL_TIMES");
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return;
  std::uint64_t begin = t.spans.front().first, end = begin;
  for (const auto& [from, to] : t.spans) begin = std::min(begin, from), end = std::max(end, to);
  const double whole = static_cast<double>(end - begin), busy = static_cast<double>(covered(t.spans));
  std::fprintf(file, "%.3f s, busy %.1f %%\n", whole * 1e-9, 100 * busy / whole);
  std::vector<std::pair<std::string, Sum>> rows(t.by_name.begin(), t.by_name.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
  std::fprintf(file, "%10s %7s %8s %10s  %s\n", "ms", "share", "calls", "us a call", "kernel");
  for (const auto& [name, sum] : rows)
    std::fprintf(file, "%10.3f %5.1f %% %8lld %10.1f  %s\n", 1e-6 * static_cast<double>(sum.nanoseconds),
                 100 * static_cast<double>(sum.nanoseconds) / whole, static_cast<long long>(sum.calls),
                 1e-3 * static_cast<double>(sum.nanoseconds) / static_cast<double>(sum.calls), name.c_str());
  std::fclose(file);
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *size = std::size_t{8} << 20, *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, *size));
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* k = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      add(readable(k->name), k->start, k->end);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto* m = reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
      add("copy of kind " + std::to_string(m->copyKind), m->start, m->end);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto* m = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      add("set", m->start, m->end);
    }
  }
  std::free(buffer);
}

}  // namespace

extern "C" int InitializeInjection() {
  if (std::getenv("GPU_KERNEL_TIMES") == nullptr) return 1;
  if (const char* after = std::getenv("GPU_KERNEL_TIMES_AFTER"))
    times().after = static_cast<std::uint64_t>(1e9 * std::atof(after));
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    cuptiActivityEnable(kind);
  std::thread([] {
    for (;;) {
      sleep(1);
      cuptiActivityFlushAll(0);
      write();
    }
  }).detach();
  std::atexit([] {
    cuptiActivityFlushAll(1);
    write();
  });
  return 1;
}
