// SpinWait: how a thread waits for another process without taking a core from threads that could work meanwhile.
#pragma once

#include "libtrain/tensor/exec.h"

namespace trainyard::comm {

// What OMP_WAIT_POLICY asks for in all waiting of this process; unsaid: neither active nor passive.
enum class WaitPolicy { unsaid, active, passive };
WaitPolicy wait_policy();

// The other threads of the waiting process. wait_too: they have nothing to do before the wait is over. work: they work
// meanwhile, perhaps on this very core.
enum class OtherThreads { wait_too, work };

// Seconds to sleep after a wait of `waited_seconds`; 0: yield the core, then look again. The sleep grows with the wait,
// so that it delays by a small part of the wait. It stays short, because data moves only inside calls. An active policy
// never sleeps; a passive policy sleeps sooner.
double nap_after(double waited_seconds, OtherThreads others, WaitPolicy policy);

// One wait by work of `exec`; it begins when this object is made. A `caller` Exec always counts as waited for, because
// the waiting thread is its own.
class SpinWait {
 public:
  explicit SpinWait(const tensor::Exec& exec);
  // A wait that never keeps a core busy, whatever the policy is, because several threads wait at the same time.
  static SpinWait asleep();
  // Called after a look that found nothing. Yields the core and returns 0, or returns how many seconds to sleep.
  double nap();
  void sleep();  // nap(), and sleeps that long

 private:
  explicit SpinWait(const tensor::Exec* exec);
  const tensor::Exec* exec_;  // null: the other threads count as working
  double start_;
};

}  // namespace trainyard::comm
