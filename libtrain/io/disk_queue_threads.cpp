// A DiskQueue of threads that call pread and pwrite.
#include "libtrain/base/index.h"
#include "libtrain/base/thread.h"
#include "libtrain/io/disk_queue.h"

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace trainyard::io {

namespace {

class ThreadQueue : public DiskQueue {
 public:
  ThreadQueue(int file, int depth, int threads) : file_(file) {
    results_.reserve(base::size(depth));
    try {
      for (int i = 0; i < threads; ++i) team_.push_back(base::start_thread("disk.io", [this] { serve(); }));
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ThreadQueue() override { stop(); }
  ThreadQueue(const ThreadQueue&) = delete;

  std::string engine() const override { return "threads"; }
  void use_memory(std::span<std::byte>) override {}
  void submit(std::span<const DiskRequest> requests) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.insert(requests_.end(), requests.begin(), requests.end());
    }
    requests.size() == 1 ? requested_.notify_one() : requested_.notify_all();
  }
  void take_results(std::vector<DiskResult>& results) override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return awake_ || !results_.empty(); });
    results.insert(results.end(), results_.begin(), results_.end());
    results_.clear();
    awake_ = false;
  }
  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      awake_ = true;
    }
    ended_.notify_one();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      requested_.wait(lock, [&] { return stopped_ || !requests_.empty(); });
      if (requests_.empty()) return;
      const auto request = requests_.front();
      requests_.pop_front();
      lock.unlock();
      const auto bytes = base::size(request.bytes);
      const auto moved = request.writes ? ::pwrite(file_, request.memory, bytes, request.offset)
                                        : ::pread(file_, request.memory, bytes, request.offset);
      const std::int64_t result = moved < 0 ? -errno : moved;
      lock.lock();
      results_.push_back({request.id, result});
      ended_.notify_one();
    }
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    requested_.notify_all();
    for (auto& thread : team_) thread.join();
  }

  const int file_;
  std::mutex mutex_;
  std::condition_variable requested_, ended_;
  std::deque<DiskRequest> requests_;
  std::vector<DiskResult> results_;
  bool stopped_ = false, awake_ = false;
  std::vector<std::thread> team_;
};

}  // namespace

std::unique_ptr<DiskQueue> make_thread_queue(int file, int depth, int threads) {
  return std::make_unique<ThreadQueue>(file, depth, threads);
}

}  // namespace trainyard::io
