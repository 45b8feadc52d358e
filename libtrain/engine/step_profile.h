// Where the time of a rank's steps goes: what its kernels take, what it waits for other ranks, what is between
// (train --profile-step).
#pragma once

#include "kernels/kernel_clock.h"
#include "libtrain/base/here_and_now.h"

#include <cstdint>
#include <string>

namespace trainyard::engine {

// Of the thread that computes, on a processor.
class StepProfile {
 public:
  explicit StepProfile(int threads);

  // What the step is about to do counts: for as long as it lives, by the thread that made it.
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

  // Before a step. The first one touches most memory for the first time: it is told apart, where others follow.
  void begin_step(std::int64_t step);
  void abandon_step();                                     // the one that began last: as if it had not
  void waited(double seconds) { now_.waited += seconds; }  // for other ranks, within what counted

  // Floating-point operations a second that the threads do at most, as multiply-adds in registers; of bf16 as products
  // have them.
  struct Peaks {
    double f32 = 0, bf16 = 0;
  };
  // Tables for people: parts of a step, products by shape, other kernels. instructions: the path in use. Empty where no
  // step was done.
  std::string text(int rank, int ranks, const std::string& instructions, const Peaks& peaks) const;

  // To what part of a step a kernel belongs, by its name in kernels/.
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
  State now_, before_;  // before: the step that began last
};

}  // namespace trainyard::engine
