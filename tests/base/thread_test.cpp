// Threads of the library: no signal reaches them, their starter's mask stays as it was, and tools see their names.
#include "libtrain/base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>

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

}  // namespace
}  // namespace trainyard::base
