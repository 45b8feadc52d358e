// Tests Execs: order, events, busy time, failures, masked signals.
#include "libtrain/tensor/exec.h"
#include "libtrain/base/error.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <pthread.h>
#include <stdexcept>
#include <thread>
#include <vector>

namespace trainyard::tensor {
namespace {

using namespace std::chrono_literals;

TEST(exec, a_worker_keeps_the_order_and_the_caller_goes_on) {
  auto worker = Exec::worker("order", nullptr);
  std::atomic<bool> open{false};
  std::vector<int> seen;
  worker->run([&] {
    while (!open) std::this_thread::sleep_for(1ms);
  });
  for (int i = 0; i < 100; ++i) worker->run([&seen, i] { seen.push_back(i); });
  const auto event = worker->record();
  EXPECT_FALSE(event.done());
  open = true;
  event.wait();
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(Event().done());
}

TEST(exec, a_worker_knows_whether_somebody_waits_for_it) {
  auto worker = Exec::worker("waited for", nullptr);
  std::promise<void> go;
  worker->run([opened = go.get_future().share()] { opened.wait(); });
  const auto event = worker->record();
  EXPECT_FALSE(event.done());
  EXPECT_FALSE(worker->waited_for());
  std::thread waits([&] { event.wait(); });
  while (!worker->waited_for()) std::this_thread::yield();
  go.set_value();
  waits.join();
  EXPECT_FALSE(worker->waited_for());
  event.wait();
  EXPECT_FALSE(worker->waited_for());
  EXPECT_TRUE(Exec::caller(nullptr, 1)->waited_for()) << "not known";
}

TEST(exec, a_worker_waits_for_the_event_of_another_without_calling_that_busy) {
  auto first = Exec::worker("first", nullptr), second = Exec::worker("second", nullptr);
  std::atomic<bool> open{false};
  int value = 0, read = 0;
  first->run([&] {
    while (!open) std::this_thread::sleep_for(1ms);
    value = 7;
  });
  second->wait(first->record());
  const auto waited = second->record();
  EXPECT_FALSE(waited.done());
  open = true;
  waited.wait();
  EXPECT_EQ(second->busy_seconds(), 0) << "it has worked on nothing yet";
  second->run([&] { read = value; });
  second->synchronize();
  first->synchronize();
  EXPECT_EQ(read, 7);
  EXPECT_GT(first->busy_seconds(), 0);
}

TEST(exec, after_a_failure_work_is_skipped_and_every_event_rethrows) {
  auto worker = Exec::worker("failure", nullptr), other = Exec::worker("other", nullptr);
  std::atomic<int> ran{0};
  const auto before = worker->record();
  worker->run([] { throw base::InputError("bad"); });
  worker->run([&] { ++ran; });
  const auto after = worker->record();
  other->wait(after);
  other->run([&] { ++ran; });
  EXPECT_NO_THROW(before.wait());
  EXPECT_THROW(after.wait(), base::InputError);
  EXPECT_THROW(worker->synchronize(), base::InputError);
  EXPECT_THROW(other->synchronize(), base::InputError);
  EXPECT_EQ(ran, 0);
}

TEST(exec, a_worker_masks_signals_has_its_name_and_its_team) {
  auto worker = Exec::worker("communication-thread", nullptr, 3);
  sigset_t mask;
  char name[16] = {};
  worker->run([&] {
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    pthread_getname_np(pthread_self(), name, sizeof name);
    std::this_thread::sleep_for(1ms);
  });
  worker->synchronize();
  for (int s : {SIGUSR1, SIGTERM, SIGINT}) EXPECT_EQ(sigismember(&mask, s), 1);
  EXPECT_STREQ(name, "communication-t");
  EXPECT_EQ(worker->threads(), 3);
  EXPECT_THROW(worker->scratch(), std::logic_error);
}

TEST(exec, a_worker_that_is_destroyed_finishes_its_work) {
  int done = 0;
  {
    auto worker = Exec::worker("last", nullptr);
    for (int i = 0; i < 10; ++i) worker->run([&done] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace trainyard::tensor
