// One thread, which takes reads from a queue.
#include "libtrain/params/read_ahead.h"

#include "libtrain/base/thread.h"

namespace trainyard::params {

ReadAhead::ReadAhead(WeightSource& source)
    : source_(source), thread_(base::start_thread("weights", [this] { work(); })) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  added_.notify_one();
  thread_.join();
}

ReadAhead::Ticket ReadAhead::add(int flat_group, base::View to) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({flat_group, to});
  added_.notify_one();
  return ++last_;
}

void ReadAhead::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return done_ >= ticket || error_; });
  if (done_ < ticket) std::rethrow_exception(error_);
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    const auto next = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      source_.read(next.flat_group, next.to);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) error_ = error;
    else ++done_;
    finished_.notify_all();
    if (error) return;
  }
}

}  // namespace trainyard::params
