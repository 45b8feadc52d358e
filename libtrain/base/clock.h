// Clock: what time it is, and letting some of it pass. Tests simulate both, since they must not depend on how busy a
// machine is.
#pragma once

namespace trainyard::base {

// In seconds from anywhere; steady.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() const;
  virtual void sleep(double seconds) const;
};

const Clock& real_clock();

}  // namespace trainyard::base
