// A thread inherits the mask of whoever starts it: all is blocked just for that.
#include "libtrain/base/thread.h"

#include "libtrain/base/trace.h"

#include <csignal>
#include <pthread.h>
#include <utility>

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

}  // namespace trainyard::base
