// Times the CPU kernels that a thread calls: calls, seconds and work of each. GPU kernels are not timed, because a call
// only launches them.
#pragma once

#include "kernels/kernel_work.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::kernels {

class KernelClock {
 public:
  // The calls of one kernel; a product has a row for each shape and type.
  struct Row {
    const char* kernel = nullptr;  // name in kernels/, such as "gemm_cpu"; null: calls that found no room in the table
    KernelWork work;               // `operations` is the sum over all calls
    std::int64_t calls = 0;
    double seconds = 0;
    // Sums over all threads, if the kernel reports them. `team` is seconds times threads; 0 if the kernel does not
    // report.
    double packing = 0, computing = 0, team = 0;
  };

  // For teams of at most `threads` threads. The constructor reserves all memory; measuring allocates nothing.
  explicit KernelClock(int threads);
  std::span<const Row> rows() const { return {rows_.data(), used_}; }  // in the order of their first calls
  void clear();
  // keep() remembers the present state. go_back() returns to it and so drops later measurements.
  void keep();
  void go_back();

  // Measures the calls of the thread that created it, for as long as it lives. One at a time for each thread.
  class Measuring {
   public:
    explicit Measuring(KernelClock& clock);
    ~Measuring();
    Measuring(const Measuring&) = delete;
  };

 private:
  friend class KernelTimer;
  void begin();
  void end(const char* kernel, const KernelWork& work, double seconds);
  Row& row_of(const char* kernel, const KernelWork& work);
  std::vector<Row> rows_, kept_;
  std::size_t used_ = 0, kept_used_ = 0;
  friend TeamSeconds* team_seconds(int threads);
  std::vector<TeamSeconds> team_;  // of the running call
};

namespace detail {
extern constinit thread_local KernelClock* kernel_clock;  // the clock of this thread; null: no measurement
}

// For the team of the call about to run: one entry for each thread, or null if nobody measures a team of this size.
inline TeamSeconds* team_seconds(int threads) {
  auto* const clock = detail::kernel_clock;
  return clock == nullptr || threads > std::ssize(clock->team_) ? nullptr : clock->team_.data();
}

// Times one call, for as long as it lives. work() is called only while a clock measures.
class KernelTimer {
 public:
  template <class Work> KernelTimer(const char* kernel, const Work& work) : clock_(detail::kernel_clock) {
    if (clock_ != nullptr) open(kernel, work());
  }
  ~KernelTimer() {
    if (clock_ != nullptr) close();
  }
  KernelTimer(const KernelTimer&) = delete;

 private:
  void open(const char* kernel, const KernelWork& work);
  void close();
  KernelClock* clock_;
  const char* kernel_ = nullptr;
  KernelWork work_;
  double begin_ = 0;
};

}  // namespace trainyard::kernels
