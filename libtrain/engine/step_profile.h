// StepProfile: where the time of a rank's steps goes: kernels, waits for other ranks, and what lies between (train
// --profile-step).
#pragma once

#include "kernels/kernel_clock.h"
#include "libtrain/base/here_and_now.h"

#include <cstdint>
#include <string>

namespace trainyard::engine {

// Measures the thread that computes, on a CPU.
class StepProfile {
 public:
  explicit StepProfile(int threads);

  // While it lives, what the thread that made it does counts as part of the step.
  class Part {
   public:
    explicit Part(StepProfile& profile) : profile_(profile), measuring_(profile.clock_) {}
    ~Part() {
      profile_.now_.seconds += base::steady_seconds() - begin_;
      profile_.now_.faults += base::page_faults() - faults_;
    }
    Part(const Part&) = delete;

   private:
    StepProfile& profile_;
    std::int64_t faults_ = base::page_faults();
    double begin_ = base::steady_seconds();
    kernels::KernelClock::Measuring measuring_;
  };

  // Call it before a step. The first step touches most memory for the first time. If other steps follow, it is reported
  // apart.
  void begin_step(std::int64_t step);
  void abandon_step();                                     // forgets the step that began last
  void waited(double seconds) { now_.waited += seconds; }  // for other ranks, during a Part

  // The most floating-point operations a second that the threads reach, as multiply-adds in registers. For bf16 they
  // are the multiply-adds that products use.
  struct Peaks {
    double f32 = 0, bf16 = 0;
  };
  // Tables as text: parts of a step, products by shape, other kernels. `instructions`: the instruction-set path in use.
  // Empty if no step was done.
  std::string text(int rank, int ranks, const std::string& instructions, const Peaks& peaks) const;

  // The part of a step to which a kernel belongs, by its name in kernels/.
  static const char* part_of(const std::string& kernel);

 private:
  struct Sum;
  Sum sum_of(const char* part, const Peaks& peaks) const;
  kernels::KernelClock clock_;
  int threads_;
  struct State {
    std::int64_t first = 0, last = 0;
    double seconds = 0, waited = 0, first_seconds = 0;
    std::int64_t faults = 0, first_faults = 0;  // of the process
  };
  State now_, before_;  // before_: as now_ was when the last step began
};

}  // namespace trainyard::engine
