// Waits for signals with sigtimedwait, so that no handler ever runs inside other code.
#include "libtrain/engine/signals.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"

#include <csignal>
#include <ctime>
#include <pthread.h>
#include <unistd.h>

namespace trainyard::engine {

namespace {

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, s);
  return set;
}

}  // namespace

SignalWatcher::SignalWatcher() {
  const auto set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

SignalWatcher::~SignalWatcher() {
  leave_ = true;
  thread_.join();
}

void SignalWatcher::raise(StopRequest r) {
  int now = request_.load();
  while (now < static_cast<int>(r) && !request_.compare_exchange_weak(now, static_cast<int>(r))) {
  }
}

void SignalWatcher::watch() {
  const auto set = watched();
  int terms = 0;
  while (!leave_) {
    const timespec patience{0, 50'000'000};
    const int signal = sigtimedwait(&set, nullptr, &patience);
    if (signal == SIGUSR1) {
      raise(StopRequest::after_step);
    } else if (signal > 0) {
      if (++terms > 1) {
        base::log_error("second termination signal: stopping at once; the last published checkpoint stands");
        _exit(128 + signal);
      }
      raise(StopRequest::abandon_step);
    }
  }
}

}  // namespace trainyard::engine
