// A thread inherits the mask of whoever starts it: all is blocked just for that.
#include "libtrain/base/thread.h"

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
  return std::thread([shown = name.substr(0, 15), work = std::move(work)] {  // the system's limit
    pthread_setname_np(pthread_self(), shown.c_str());
    work();
  });
}

}  // namespace trainyard::base
