// Kills a writer at a moment that is defined by what it has done, so that it comes on a machine of any speed.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace sample {

enum class End { killed, came };

// Runs `write` in a child process and kills it once `when` holds; `write` may also kill itself. Returns whether it
// ended first, which must be without an error.
inline End kill_when(const std::function<bool()>& when, const std::function<void()>& write) {
  const auto pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    try {
      write();
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0)
    if (when()) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      break;
    }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return End::killed;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the writer failed: status " << status;
  return End::came;
}

// A condition that holds once `seconds` have passed.
inline std::function<bool()> after(double seconds) {
  return [left = std::chrono::duration<double>(seconds)]() mutable {
    constexpr std::chrono::microseconds look{100};
    if (left.count() > 0) std::this_thread::sleep_for(look);
    left -= look;
    return left.count() <= 0;
  };
}

}  // namespace sample
