// Where the time of a rank's steps goes: what its kernels take, what it waits for other ranks, what is between
// (train --profile-step).
#pragma once

#include "kernels/kernel_clock.h"

#include <chrono>
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
      const std::chrono::duration<double> d = std::chrono::steady_clock::now() - begin_;
      profile_.seconds_ += d.count();
    }
    Part(const Part&) = delete;

   private:
    StepProfile& profile_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    kernels::KernelClock::Measuring measuring_;
  };

  // Before a step. The first one touches most memory for the first time: it is told apart, where others follow.
  void begin_step(std::int64_t step);
  void waited(double seconds) { waited_ += seconds; }  // for other ranks, within what counted

  // Floating-point operations a second that the threads do at most: multiply-adds of f32 in registers; those that
  // products are made of, which are others where products of bf16 have instructions of their own.
  struct Peaks {
    double f32 = 0, products = 0;
  };
  // Tables for people: parts of a step, products by shape, other kernels. Empty where no step was done.
  std::string text(int rank, int ranks, const Peaks& peaks) const;

  // To what part of a step a kernel belongs, by its name in kernels/.
  static const char* part_of(const std::string& kernel);

 private:
  struct Sum;
  Sum sum_of(const char* part, const Peaks& peaks) const;
  kernels::KernelClock clock_;
  int threads_;
  std::int64_t first_ = 0, last_ = 0;
  double seconds_ = 0, waited_ = 0, first_seconds_ = 0;
};

}  // namespace trainyard::engine
