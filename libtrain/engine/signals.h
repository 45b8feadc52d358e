// SignalWatcher: the one thread that sees signals. USR1: finish the step and save. TERM, INT, HUP: abandon the step and
// save. INT or TERM again, a second later: stop now.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

namespace trainyard::engine {

// Call it first in a main that gives these signals a meaning. USR1, TERM, INT and HUP then wait until a SignalWatcher
// sees them or release_signals() is called. Otherwise a signal in a program's first moments would end it.
void hold_signals();
// For a program without a watcher: TERM, INT and HUP do what they do to any program, USR1 does nothing.
void release_signals();

enum class StopRequest : int { none = 0, after_step = 1, abandon_step = 2 };

// Construct it before any other thread is started: it masks USR1, TERM, INT and HUP in the calling thread, and later
// threads inherit the mask. It also sees signals that came since hold_signals(). Only an INT or TERM that comes a
// second or more after the first INT or TERM stops at once. Earlier ones do not, because launchers repeat a signal, and
// a closed terminal sends HUP twice before its session ends. The programs ignore SIGPIPE already.
class SignalWatcher {
 public:
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  StopRequest request() const { return static_cast<StopRequest>(request_.load()); }
  void raise(StopRequest r);  // for tests, and for --stop-after
  // Sets the sentence that is logged at once at the first TERM, INT or HUP. It is about a launcher that may not wait
  // for the save that follows.
  void announce(std::string sentence) const;

 private:
  void watch();
  std::atomic<int> request_{0};
  std::atomic<bool> leave_{false};
  mutable std::mutex announcing_;
  mutable std::string announcement_;
  std::thread thread_;
};

}  // namespace trainyard::engine
