// Watchdog: notices over a private channel that a collective hangs, names the missing ranks, and ends the job instead
// of waiting for ever.
#pragma once

#include "libtrain/comm/ledger.h"
#include "libtrain/comm/watchdog_message.h"
#include "libtrain/comm/watchdog_report.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::comm {

enum class Decided { here, elsewhere };

struct WatchedLedger {
  WatchedGroup group;
  const Ledger* ledger = nullptr;  // of this rank's communicator; null: this rank is in none of these groups
  // For calls that begin before anybody needs them: does somebody wait for the call under way? While nobody does, the
  // rank counts as waiting for no other rank. Empty: every call is waited for. The watchdog's thread asks.
  std::function<bool()> waited_for = {};
};

struct WatchdogOptions {
  int rank = 0, size = 1;
  double timeout_seconds = 600;   // a collective open for longer than this while nothing completes it is a hang
  double interval_seconds = 0.5;  // between two reports of a rank
  // Called once, on the watchdog's thread, on every rank that still answers. `sentence` names the collective, the step
  // and the ranks. The rank that decided has printed it, and so has the first rank of each other machine.
  std::function<void(const std::string& sentence, Decided where)> on_hang = {};
  WatchdogKey key = {};  // of this start, the same on every rank; messages without its seal are ignored
};

// One thread per rank with all signals masked, and one UDP socket; no MPI. A message counts if the job's key seals it
// and it comes from an address that its rank named. With one rank nothing is started.
//
// Every rank reports sequence number, operation and step of each watched ledger to rank 0. Rank 0 compares the ledgers
// of one group. Every other rank watches rank 0 in the same way, in case rank 0 falls silent. Only time in which this
// process ran is counted, so that a suspended job does not look hung. Long computing is no hang as long as nobody waits
// for it longer than the timeout.
//
// A rank has ended without a word if three things hold. It was heard, its machine now refuses messages because nobody
// listens there, and it has not said farewell. This is reported within seconds, also outside of calls, because a
// launcher need not notice it (srun does not). The destructor says farewell until it is answered, for 4 intervals at
// most. A refusal from an address that was never heard means nothing. One warning names the ranks that are never heard.
class Watchdog {
 public:
  // The ledgers outlive the watchdog. Every rank passes ledgers of the same groups in the same order, at most
  // watched_limit.
  Watchdog(WatchdogOptions options, const std::vector<WatchedLedger>& watched);
  // Watches these ledgers instead. While there are none, only lost ranks are reported.
  void watch(const std::vector<WatchedLedger>& watched);
  // Set while ranks make others wait for as long as their work takes, for instance on a disk. All groups are then
  // judged patiently (WatchedGroup::Judged).
  void be_patient(bool patient);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  std::string address() const;  // "10.0.0.3,172.17.0.1:40213 node17"; the caller exchanges these texts
  void start(const std::vector<std::string>& addresses);  // by rank
  void set_step(std::int64_t step) { step_ = step; }      // the step that the sentence names
  // `doing` returns what this rank does, for the sentence. The watchdog's thread asks it until another one is set.
  // Empty: nothing is known.
  void ask_what_is_done(std::function<std::string()> doing);

  struct Impl;

 private:
  std::atomic<std::int64_t> step_{0};
  std::unique_ptr<Impl> impl_;
};

// Waits until the other ranks have had time to write their reasons, because a launcher kills them when one rank ends.
// The rank that decided waits 0.5 s. The others wait 3 s, in case it does not end the job.
void let_others_write_reasons(Decided where);

// An on_hang for processes whose launcher ends a job when one process fails, as mpirun does. Writes the reason
// (comm/reason.h) if `folder` is not empty, lets other ranks write theirs, and leaves by _exit(6).
std::function<void(const std::string&, Decided)> end_job_on_hang(const std::string& folder, int rank);

}  // namespace trainyard::comm
