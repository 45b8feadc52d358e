// Simulated clocks. The time of a SimulatedClock advances only where a thread spends it; each thread has its own time.
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

// A clock that advances by one second with every call of now(), and in no other way.
class LookClock : public base::Clock {
 public:
  double now() const override { return ++looks_; }
  void sleep(double) const override {}

 private:
  mutable double looks_ = 0;
};

}  // namespace trainyard::testing
