// Starts threads with blocked signals. A thread inherits its starter's signal mask, so signals are blocked just while
// it is started. Signals of errors stay open: the system skips their handlers (base/last_resort.h) where they are
// blocked.
#include "libtrain/base/thread.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/trace.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <pthread.h>
#include <utility>
#include <vector>

namespace trainyard::base {

namespace {

class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int mistake : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigdelset(&all, mistake);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_thread(const std::string& name, std::function<void()> work) {
  const AllSignalsBlocked blocked;
  return std::thread([name, family = detail::family_of_this_thread(), work = std::move(work)] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());  // the system's limit
    detail::enter_family(family.get(), name.c_str());
    work();
    detail::leave_family();
  });
}

namespace {

// Threads that wait until the gate opens. They allocate nothing, because the system reserves memory for threads that
// allocate.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
};
void* wait_at(void* where) {
  auto& gate = *static_cast<Gate*>(where);
  std::unique_lock lock(gate.mutex);
  gate.changed.wait(lock, [&] { return gate.open; });
  return nullptr;
}

}  // namespace

void require_threads(int count) {
  const AllSignalsBlocked blocked;
  Gate gate;
  std::vector<pthread_t> team(size(std::max(count, 0)));
  std::size_t started = 0;
  while (started < team.size() && pthread_create(&team[started], nullptr, wait_at, &gate) == 0) ++started;
  {
    const std::lock_guard lock(gate.mutex);
    gate.open = true;
  }
  gate.changed.notify_all();
  for (std::size_t i = 0; i < started; ++i) pthread_join(team[i], nullptr);
  if (started < team.size())
    throw EnvironmentError(
        fmt::format("the system started only {} of the {} threads that are needed", started, count),
        text("fewer $threads, fewer ranks on a node, or higher limits of processes and memory (ulimit -u, ulimit -v)"));
}

void run_shares(const std::string& name, int shares, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> thrown(size(shares));
  const auto run = [&](int share) noexcept {
    try {
      work(share);
    } catch (...) {
      at(thrown, share) = std::current_exception();
    }
  };
  std::vector<std::thread> team;
  team.reserve(size(shares));
  int started = 1;
  try {
    for (; started < shares; ++started) team.push_back(start_thread(name, [&run, started] { run(started); }));
  } catch (const std::exception&) {  // no thread or no memory left
  }
  run(0);
  for (int share = started; share < shares; ++share) run(share);
  for (auto& thread : team) thread.join();
  for (const auto& e : thrown)
    if (e) std::rethrow_exception(e);
}

}  // namespace trainyard::base
