// A time that passes only where it is spent: each thread has its own.
#pragma once

#include "libtrain/base/clock.h"

namespace trainyard::testing {

class SimulatedClock : public base::Clock {
 public:
  double now() const override { return passed(); }
  void sleep(double seconds) const override { passed() += seconds; }
  static void spend(double seconds) { passed() += seconds; }

 private:
  static double& passed() {
    thread_local double seconds = 0;
    return seconds;
  }
};

// Every look at it takes a second, nothing else does.
class LookClock : public base::Clock {
 public:
  double now() const override { return ++looks_; }
  void sleep(double) const override {}

 private:
  mutable double looks_ = 0;
};

}  // namespace trainyard::testing
