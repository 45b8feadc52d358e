// Clock: reads the time and sleeps. Tests simulate both, since they must not depend on how busy a machine is.
#pragma once

namespace trainyard::base {

// Seconds on a steady clock with an arbitrary zero.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() const;
  virtual void sleep(double seconds) const;
};

const Clock& real_clock();

}  // namespace trainyard::base
