// Waits for signals with sigtimedwait, so that no handler ever runs inside other code.
#include "libtrain/engine/signals.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/thread.h"

#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>
#include <pthread.h>
#include <unistd.h>
#include <utility>

namespace trainyard::engine {

namespace {

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, s);
  return set;
}

}  // namespace

void hold_signals() {
  const auto set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void release_signals() {
  std::signal(SIGUSR1, SIG_IGN);
  const auto set = watched();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalWatcher::SignalWatcher() {
  hold_signals();
  thread_ = base::start_thread("signals", [this] { watch(); });
}

SignalWatcher::~SignalWatcher() {
  leave_ = true;
  thread_.join();
}

void SignalWatcher::raise(StopRequest r) {
  int now = request_.load();
  while (now < static_cast<int>(r) && !request_.compare_exchange_weak(now, static_cast<int>(r))) {}
}

void SignalWatcher::announce(std::string sentence) const {
  const std::lock_guard lock(announcing_);
  announcement_ = std::move(sentence);
}

void SignalWatcher::watch() {
  const auto set = watched();
  std::optional<std::chrono::steady_clock::time_point> first;  // time of the first INT or TERM
  while (!leave_) {
    const timespec timeout{0, 50'000'000};
    const int signal = sigtimedwait(&set, nullptr, &timeout);
    if (signal == SIGUSR1) {
      raise(StopRequest::after_step);
    } else if (signal > 0) {
      raise(StopRequest::abandon_step);
      {
        const std::lock_guard lock(announcing_);
        if (!announcement_.empty()) base::log_warning("{}", announcement_);
        announcement_.clear();
      }
      if (signal == SIGHUP) continue;
      const auto now = std::chrono::steady_clock::now();
      if (!first) first = now;
      if (now - *first < std::chrono::seconds(1)) continue;
      base::log_error("asked to stop again: stopping at once; the last published checkpoint stands");
      _exit(128 + signal);
    }
  }
}

}  // namespace trainyard::engine
