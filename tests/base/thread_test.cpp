// Tests threads of the library: no signal reaches them, their starter's mask is unchanged, and tools see their names.
#include "libtrain/base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <stdexcept>

namespace trainyard::base {
namespace {

sigset_t own_mask() {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return mask;
}

TEST(thread, every_signal_is_blocked_on_it_and_none_on_its_starter) {
  const auto before = own_mask();
  sigset_t there;
  sigemptyset(&there);
  start_thread("quiet", [&] { there = own_mask(); }).join();
  for (int s : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE, SIGALRM})
    EXPECT_EQ(sigismember(&there, s), 1) << s;
  const auto after = own_mask();
  for (int s = 1; s < SIGRTMIN; ++s) EXPECT_EQ(sigismember(&after, s), sigismember(&before, s)) << s;
}

TEST(thread, has_its_name_cut_to_what_the_system_takes_when_its_work_begins) {
  char name[16] = {};
  const auto look = [&] { pthread_getname_np(pthread_self(), name, sizeof name); };
  start_thread("loader", look).join();
  EXPECT_STREQ(name, "loader");
  start_thread("a name of many letters", look).join();
  EXPECT_STREQ(name, "a name of many ");
}

TEST(thread, shares_are_all_done_and_what_the_lowest_threw_comes_out) {
  for (const int shares : {1, 2, 5}) {
    std::atomic<int> done{0};
    run_shares("share", shares, [&](int share) { done += 1 << (4 * share); });
    EXPECT_EQ(done, 0x11111 & ((1 << (4 * shares)) - 1));
  }
  std::atomic<int> begun{0};
  try {
    run_shares("share", 5, [&](int share) {
      ++begun;
      if (share % 2 == 1) throw std::runtime_error(std::to_string(share));
    });
    ADD_FAILURE() << "nothing came out";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "1");
  }
  EXPECT_EQ(begun, 5);
}

// In a process of its own, as a user to whom the system's limit applies.
TEST(thread, shares_are_done_where_no_thread_can_be_started) {
  const auto child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (geteuid() == 0 && setuid(65534) != 0)) _exit(2);
    int done = 0;
    const auto here = pthread_self();
    run_shares("share", 3, [&](int) { done += pthread_equal(pthread_self(), here) != 0; });
    _exit(done == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace trainyard::base
