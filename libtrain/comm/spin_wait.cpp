// How long a thread sleeps, by how long it has waited and by what other threads do.
#include "libtrain/comm/spin_wait.h"

#include "libtrain/base/here_and_now.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace trainyard::comm {

WaitPolicy wait_policy() {
  static const WaitPolicy policy = [] {
    const char* given = std::getenv("OMP_WAIT_POLICY");
    const std::string_view text = given != nullptr ? given : "";
    if (text == "active" || text == "ACTIVE") return WaitPolicy::active;
    return text == "passive" || text == "PASSIVE" ? WaitPolicy::passive : WaitPolicy::unsaid;
  }();
  return policy;
}

double nap_after(double waited, OtherThreads others, WaitPolicy policy) {
  if (policy == WaitPolicy::active) return 0;
  constexpr double shortest = 50e-6;
  if (others == OtherThreads::work) return waited < shortest ? 0 : std::clamp(waited / 16, shortest, 1e-3);
  const double busy = policy == WaitPolicy::passive ? 1e-3 : 10e-3;
  return waited < busy ? 0 : std::clamp(waited / 64, shortest, 1e-3);
}

SpinWait::SpinWait(const tensor::Exec& exec) : SpinWait(&exec) {}
SpinWait::SpinWait(const tensor::Exec* exec) : exec_(exec), start_(base::steady_seconds()) {}
SpinWait SpinWait::asleep() { return SpinWait(nullptr); }

double SpinWait::nap() {
  const double waited = base::steady_seconds() - start_;
  const double nap =
      exec_ == nullptr
          ? nap_after(waited, OtherThreads::work, WaitPolicy::unsaid)
          : nap_after(waited, exec_->waited_for() ? OtherThreads::wait_too : OtherThreads::work, wait_policy());
  if (nap == 0) std::this_thread::yield();
  return nap;
}

void SpinWait::sleep() {
  if (const double seconds = nap(); seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace trainyard::comm
