// DiskQueue: requests of one file under way at once, through io_uring or through threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trainyard::io {

struct DiskRequest {
  bool writes = false;
  std::int64_t offset = 0, bytes = 0;
  std::byte* memory = nullptr;  // of a write it is only read
  int id = 0;
};
// How a request ended: the bytes that were moved, maybe fewer than requested, or below 0 the system's error number.
struct DiskResult {
  int id = 0;
  std::int64_t result = 0;
};

// One thread at a time calls the methods, but wake() and use_memory() belong to any thread.
class DiskQueue {
 public:
  virtual ~DiskQueue() = default;  // every request has ended before: its result was taken
  virtual std::string engine() const = 0;
  // Memory of requests to come. Whether it helps is the queue's business.
  virtual void use_memory(std::span<std::byte> memory) = 0;
  // At most as many requests are under way as the queue was made for.
  virtual void submit(std::span<const DiskRequest> requests) = 0;
  // Blocks until a request has ended or wake() was called since the last call, and appends what ended.
  virtual void take_results(std::vector<DiskResult>& results) = 0;
  virtual void wake() = 0;
};

// `depth` is the most requests under way; of these each thread serves one.
std::unique_ptr<DiskQueue> make_thread_queue(int file, int depth, int threads);
// nullptr where this build or this system has no io_uring; `why` is the reason.
std::unique_ptr<DiskQueue> make_uring_queue(int file, int depth, std::string& why);

}  // namespace trainyard::io
