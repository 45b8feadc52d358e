// A thread inherits the mask of whoever starts it: all is blocked just for that.
#include "libtrain/base/thread.h"

#include "libtrain/base/trace.h"

#include <csignal>
#include <exception>
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

void run_shares(const std::string& name, int shares, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(shares));
  const auto run = [&](int share) noexcept {
    try {
      work(share);
    } catch (...) {
      thrown[static_cast<std::size_t>(share)] = std::current_exception();
    }
  };
  std::vector<std::thread> team;
  team.reserve(static_cast<std::size_t>(shares));
  int started = 1;
  try {
    for (; started < shares; ++started) team.push_back(start_thread(name, [&run, started] { run(started); }));
  } catch (const std::exception&) {  // no thread left, or no memory for one
  }
  run(0);
  for (int share = started; share < shares; ++share) run(share);
  for (auto& thread : team) thread.join();
  for (const auto& e : thrown)
    if (e) std::rethrow_exception(e);
}

}  // namespace trainyard::base
