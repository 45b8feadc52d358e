// SignalWatcher: the one thread that sees signals. USR1: finish the step and save. TERM, INT, HUP: abandon the step and
// save. INT or TERM again, a second later: stop now.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

namespace trainyard::engine {

// First thing in a main that gives these signals a meaning: USR1, TERM, INT and HUP wait until a SignalWatcher sees
// them or release_signals() is called. Else a signal in a program's first moments ends it.
void hold_signals();
// For what has no use of a watcher: TERM, INT and HUP do what they do to any program, USR1 nothing.
void release_signals();

enum class StopRequest : int { none = 0, after_step = 1, abandon_step = 2 };

// Construct before any other thread is started: it masks USR1, TERM, INT and HUP in the calling thread, which later
// threads inherit; what came since hold_signals() is seen. Only an INT or TERM that comes a second or more after the
// first INT or TERM stops at once: launchers repeat a signal, a closed terminal sends HUP twice, and what follows it is
// its session's end. SIGPIPE is ignored by the programs already.
class SignalWatcher {
 public:
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  StopRequest request() const { return static_cast<StopRequest>(request_.load()); }
  void raise(StopRequest r);  // for tests, and for --stop-after
  // What is logged at once at the first TERM, INT or HUP: of a launcher that may not wait for what follows.
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
