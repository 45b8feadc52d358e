// Transfers: the collectives of whole flat groups, in segments, so that one between ranks that share a layer never
// waits for more of a flat group than the segment that is on its way.
#pragma once

#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <deque>
#include <functional>

namespace trainyard::params {

// All segments are issued in the order in which they were added. Where nobody shares layers that is at once; else each
// collective of the tensor group lets some follow it (let_some_follow): as many as the foremost transfer needs to be
// done within a layer, however many wait behind it. What somebody needs is issued when it is asked for. These are
// places in the program, not times: every rank issues the same in the same order. Called by the compute thread.
class Transfers {
 public:
  enum class Issue { at_once, between };
  Transfers(tensor::Exec& communication, Issue issue) : communication_(communication), issue_(issue) {}

  using Ticket = std::int64_t;  // of a transfer; 0: none
  // segment(i), i in [0, segments), puts one on the communication Exec.
  Ticket add(std::int64_t segments, std::function<void(std::int64_t)> segment);
  // When the transfer is done; issues all of it. An empty event when that has been asked before.
  tensor::Event done(Ticket ticket);
  void let_some_follow();
  void issue_all();
  // Issues all. Who asks for any of them from now on has waited for the communication Exec since.
  void finish();

 private:
  struct Queued {
    Ticket ticket;
    std::int64_t segments, pace, issued;
    std::function<void(std::int64_t)> segment;
    tensor::Event done;
  };
  void issue(Queued& transfer);
  tensor::Exec& communication_;
  Issue issue_;
  std::deque<Queued> under_way_;  // ascending in ticket; not asked for yet
  Ticket last_ = 0;
};

}  // namespace trainyard::params
