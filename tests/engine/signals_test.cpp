// Which signals ask a run to stop, and which end it at once.
#include "libtrain/engine/signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

namespace trainyard::engine {
namespace {

using namespace std::chrono_literals;

struct Sent {
  int signal;
  std::chrono::milliseconds before;
};

// Runs in a process of its own. It ends with the watcher's exit code. If the watcher asks for a stop and does not end
// the process within `timeout` after the last signal, the exit code is 75.
[[noreturn]] void after(const std::vector<Sent>& signals, std::chrono::milliseconds timeout = 200ms) {
  const SignalWatcher watcher;
  for (const auto& s : signals) {
    std::this_thread::sleep_for(s.before);
    kill(getpid(), s.signal);
    while (watcher.request() != StopRequest::abandon_step) std::this_thread::sleep_for(1ms);
  }
  std::this_thread::sleep_for(timeout);
  std::_Exit(75);
}

TEST(Signals, AClosedTerminalIsOneRequest) {
  EXPECT_EXIT(after({{SIGHUP, 0ms}, {SIGHUP, 100ms}, {SIGHUP, 1100ms}}), ::testing::ExitedWithCode(75), "");
  EXPECT_EXIT(after({{SIGHUP, 0ms}, {SIGTERM, 1100ms}}), ::testing::ExitedWithCode(75), "") << "the first TERM";
}

TEST(Signals, ALauncherThatRepeatsIsOneRequest) {
  EXPECT_EXIT(after({{SIGTERM, 0ms}, {SIGTERM, 20ms}, {SIGINT, 20ms}}), ::testing::ExitedWithCode(75), "");
}

TEST(Signals, APersonWhoInsistsStopsAtOnce) {
  EXPECT_EXIT(after({{SIGINT, 0ms}, {SIGINT, 1100ms}}, 10s), ::testing::ExitedWithCode(128 + SIGINT),
              "stopping at once");
  EXPECT_EXIT(after({{SIGTERM, 0ms}, {SIGHUP, 10ms}, {SIGTERM, 1100ms}}, 10s), ::testing::ExitedWithCode(128 + SIGTERM),
              "stopping at once");
}

}  // namespace
}  // namespace trainyard::engine
