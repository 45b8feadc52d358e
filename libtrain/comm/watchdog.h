// Watchdog: notices over a private channel that a collective hangs, says which ranks are missing, and ends the job
// instead of waiting for ever.
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
  const Ledger* ledger = nullptr;  // of this rank's communicator; null: it is in none of these groups
  // Of calls that are begun before anybody needs them: does somebody wait for the one under way? While nobody does, the
  // rank counts as one that waits for no other. Empty: every call is waited for. Asked on the watchdog's thread.
  std::function<bool()> waited_for = {};
};

struct WatchdogOptions {
  int rank = 0, size = 1;
  double timeout_seconds = 600;   // a collective open for longer than this while nothing completes it is a hang
  double interval_seconds = 0.5;  // between two reports of a rank
  // Called once, on the watchdog's thread, on every rank that still answers; `sentence` names the collective, the step
  // and the ranks. The rank that decided has printed it, as has the first rank of each other machine.
  std::function<void(const std::string& sentence, Decided where)> on_hang = {};
  WatchdogKey key = {};  // of this start, the same on every rank: what is not sealed with it is not heard
};

// One thread per rank, all signals masked, and one UDP socket; no MPI. Heard is what the job's key seals and what comes
// from an address that its rank named. Every rank reports sequence number, operation
// and step of each watched ledger to rank 0. Rank 0 compares those of one group; every other rank does so about rank 0,
// should that one fall silent. Only time in which this process ran is counted, so that a suspended job does not look
// hung. Long computing is no hang as long as nobody waits for it longer than the timeout. A rank that was heard, whose
// machine then says that nobody listens there any more, and that has not said farewell (the destructor does, until it
// is answered, for 4 intervals at most) has ended without a word: that is told within seconds, also outside of calls,
// because no launcher has to notice it (srun does not). A refusal from where nothing was ever heard means nothing; that
// ranks are never heard is told in one warning. With one rank nothing is started.
class Watchdog {
 public:
  // The ledgers outlive the watchdog; those of the same groups in the same order on every rank, at most
  // watched_limit.
  Watchdog(WatchdogOptions options, const std::vector<WatchedLedger>& watched);
  // Other ledgers instead: where a rank begins with none, only lost ranks are told of.
  void watch(const std::vector<WatchedLedger>& watched);
  // While ranks let others wait for as long as their work takes, as for a disk: all groups are judged patiently.
  void be_patient(bool patient);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  std::string address() const;  // "10.0.0.3,172.17.0.1:40213 node17"; the caller exchanges them
  void start(const std::vector<std::string>& addresses);  // by rank
  void set_step(std::int64_t step) { step_ = step; }      // what the sentence will call the step
  // What this rank does, for the sentence; asked on the watchdog's thread until something else is to be asked. Empty:
  // nothing is known.
  void ask_what_is_done(std::function<std::string()> doing);

  struct Impl;

 private:
  std::atomic<std::int64_t> step_{0};
  std::unique_ptr<Impl> impl_;
};

// An on_hang for processes whose launcher ends a job when one of them fails, as mpirun does: writes the reason
// (comm/reason.h), where a folder is named, and leaves by _exit(6).
std::function<void(const std::string&, Decided)> end_job_on_hang(const std::string& folder, int rank);

}  // namespace trainyard::comm
