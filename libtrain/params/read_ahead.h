// ReadAhead: a thread that reads flat groups in the order in which they are asked for.
#pragma once

#include "libtrain/params/weight_source.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace trainyard::params {

class ReadAhead {
 public:
  using Ticket = std::int64_t;  // names a read; 0: none, which is done

  // Starts the thread. The source must outlive this object.
  explicit ReadAhead(WeightSource& source);
  ~ReadAhead();  // waits for the read under way, and drops the others
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Adds a read of a flat group's shard. `to` belongs to the thread until wait() has returned.
  Ticket add(int flat_group, base::View to);
  // Blocks until the read is done. Rethrows the error of this read or of an earlier one; after an error nothing more is
  // read.
  void wait(Ticket ticket);

 private:
  struct Read {
    int flat_group;
    base::View to;
  };
  void work();

  WeightSource& source_;
  std::mutex mutex_;
  std::condition_variable added_, finished_;
  std::deque<Read> waiting_;
  Ticket last_ = 0, done_ = 0;
  bool ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace trainyard::params
