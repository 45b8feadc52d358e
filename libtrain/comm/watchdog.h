// Watchdog: notices over a private channel that a collective hangs, says which ranks are missing, and ends the job instead of waiting for ever.
#pragma once

#include "libtrain/comm/ledger.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::comm {

struct WatchdogOptions {
  int rank = 0, size = 1;
  double timeout_seconds = 600;   // a collective open for longer than this while nothing completes it is a hang
  double interval_seconds = 0.5;  // between two reports of a rank
  // Called once, on the watchdog's thread, on every rank that still answers; `sentence` names the collective, the step and the ranks.
  std::function<void(const std::string& sentence)> on_hang;
};

// One thread per rank, all signals masked, and one UDP socket; no MPI. Every rank reports sequence number, operation and step of each
// watched ledger to rank 0. Rank 0 compares; every other rank does so about rank 0, should that one fall silent. Only time in which this
// process ran is counted, so that a suspended job does not look hung. Long computing is no hang as long as nobody waits for it longer
// than the timeout. With one rank nothing is started.
class Watchdog {
 public:
  // The ledgers outlive the watchdog; the same ones in the same order on every rank, at most 4.
  Watchdog(WatchdogOptions options, std::vector<std::pair<std::string, const Ledger*>> watched);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  std::string address() const;                            // "10.0.0.3:40213"; the caller exchanges them
  void start(const std::vector<std::string>& addresses);  // by rank
  void set_step(std::int64_t step) { step_ = step; }      // what the sentence will call the step

  struct Impl;

 private:
  std::atomic<std::int64_t> step_{0};
  std::unique_ptr<Impl> impl_;
};

// The usual on_hang: writes {"rank", "exit_code", "reason"} to
// FOLDER/rank-00003.json (the rank that decided has already printed the sentence to stderr), and leaves by _exit(6).
std::function<void(const std::string&)> end_job_on_hang(const std::string& folder, int rank);

}  // namespace trainyard::comm
