// How long the kernels take that a thread calls: calls and seconds of each, with what it says of its work. Kernels of a
// processor alone: those of a GPU only begin when they are called.
#pragma once

#include "kernels/kernel_work.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::kernels {

class KernelClock {
 public:
  // Calls of one kernel; of a product those of one shape and type.
  struct Row {
    const char* kernel = nullptr;  // as kernels/ calls it: "gemm_cpu"; null: calls that found no room
    KernelWork work;               // operations of all calls
    std::int64_t calls = 0;
    double seconds = 0;
    // Of all threads together, where the kernel tells; team: seconds times threads, 0 where it does not.
    double packing = 0, computing = 0, team = 0;
  };

  // For teams of so many threads. Memory is reserved here; measuring allocates nothing.
  explicit KernelClock(int threads);
  std::span<const Row> rows() const { return {rows_.data(), used_}; }  // in the order of their first calls
  void clear();
  // go_back() forgets what was measured since the last keep().
  void keep();
  void go_back();

  // For as long as it lives, the calls of the thread that made it are measured. One at a time.
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
  std::vector<TeamSeconds> team_;  // of the call that runs
};

namespace detail {
extern constinit thread_local KernelClock* kernel_clock;  // of this thread; null: nobody measures
}

// For the team of the call that is about to run: a place for each thread; null where nobody measures such a team.
inline TeamSeconds* team_seconds(int threads) {
  auto* const clock = detail::kernel_clock;
  return clock == nullptr || static_cast<std::size_t>(threads) > clock->team_.size() ? nullptr : clock->team_.data();
}

// One call, as long as it lives. work() is asked where somebody measures.
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
