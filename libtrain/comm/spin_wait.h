// SpinWait: how a thread waits for another process without taking a core from whoever could work on it meanwhile.
#pragma once

#include "libtrain/tensor/exec.h"

namespace trainyard::comm {

// What OMP_WAIT_POLICY says of all waiting of a process.
enum class WaitPolicy { unsaid, active, passive };
WaitPolicy wait_policy();

// Of the process that waits: they have nothing to do before the wait is over, or they work meanwhile, it may be on this
// very core.
enum class OtherThreads { wait_too, work };

// How long to sleep, in seconds, once so many have been waited; 0: look again, when others have had the core. Grows
// with what was waited, so that it delays by a small part of that, and is short enough for data to move meanwhile,
// which it does inside of calls only. An active policy never sleeps, a passive one does so sooner.
double nap_after(double waited_seconds, OtherThreads others, WaitPolicy policy);

// Of one wait, which begins with it, by work of `exec`. Nobody asks who waits for a `caller` Exec: it is the thread
// that would.
class SpinWait {
 public:
  explicit SpinWait(const tensor::Exec& exec);
  // Who may never keep a core busy, whatever the policy says: several wait at the same time.
  static SpinWait asleep();
  // After a look that found nothing: offers the core to others, or says for how long to sleep.
  double nap();
  void sleep();  // nap(), slept

 private:
  explicit SpinWait(const tensor::Exec* exec);
  const tensor::Exec* exec_;  // null: others always work
  double start_;
};

}  // namespace trainyard::comm
