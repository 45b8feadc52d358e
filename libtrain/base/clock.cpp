// The machine's steady clock.
#include "libtrain/base/clock.h"

#include "libtrain/base/here_and_now.h"

#include <chrono>
#include <thread>

namespace trainyard::base {

double Clock::now() const { return steady_seconds(); }
void Clock::sleep(double seconds) const { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

const Clock& real_clock() {
  static const Clock clock;
  return clock;
}

}  // namespace trainyard::base
