// Transfers: the collectives of whole flat groups, in segments. So a tensor-parallel collective never waits for a whole
// flat group, only for the segments that were issued before it.
#pragma once

#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <deque>
#include <functional>

namespace trainyard::params {

// Segments are issued in the order in which their transfers were added. Without tensor parallelism add() issues all of
// them. With it, segments are issued at two kinds of points:
//  - after each tensor-parallel collective, let_some_follow() issues some: so many that the first unfinished transfer
//    is issued in full within the collectives of one layer, however many transfers wait behind it
//  - done() issues the rest of a transfer whose result is needed
// These are points of the program and not of time, so all ranks issue the same segments in the same order. Called by
// the compute thread.
class Transfers {
 public:
  enum class Issue { at_once, between };
  Transfers(tensor::Exec& communication, Issue issue) : communication_(communication), issue_(issue) {}

  using Ticket = std::int64_t;  // names a transfer; 0: none
  // segment(i), with i in [0, segments), puts segment i on the communication Exec.
  Ticket add(std::int64_t segments, std::function<void(std::int64_t)> segment);
  // The event after which the transfer is done. Issues what is left of it and of the transfers before it. Empty if it
  // was asked for before.
  tensor::Event done(Ticket ticket);
  void let_some_follow();
  void issue_all();
  // Issues everything and forgets all transfers, so that done() returns empty events for them. The caller then waits
  // for the communication Exec.
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
  std::deque<Queued> under_way_;  // ascending in ticket; done() was not called yet
  Ticket last_ = 0;
};

}  // namespace trainyard::params
