// The watchdog of a world: it watches the lives of the ranks, the calls of a start, and the calls of steps.
#pragma once

#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/world.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::engine {

// Starts this rank's watchdog and exchanges with the others where each listens; null for one rank. From here on a rank
// that ends without a word ends the job. So does a rank that stays silent while others wait for it in a call of
// World::control. The verdict goes to World::on_hang, or to `otherwise` if there is none. Collective, on `exec`.
std::unique_ptr<comm::Watchdog> watch_peers(
    World& world, tensor::Exec& exec, double timeout_seconds,
    std::function<void(const std::string& sentence, comm::Decided where)> otherwise);

// From here on the watchdog watches the calls of all groups.
// of_a_start: a rank that answers may work alone, on a plan or a checkpoint, and let others wait as long as that takes.
// The job ends if a rank stays silent, or if all ranks wait for one another.
// of_steps: the job also ends if a call is not completed in time.
// The world keeps its communicators for as long as the watchdog lives. A null watchdog does nothing.
enum class Calls { of_a_start, of_steps };
// The ledgers of these calls: the same groups in the same order on every rank, and at most comm::watched_limit in any
// parallel layout.
std::vector<comm::WatchedLedger> watched_calls(const World& world, Calls calls);
void watch_calls(comm::Watchdog* watchdog, const World& world, Calls calls);

// While it lives, ranks may wait for one another's files, as for a slow disk: a rank that answers is not missing,
// however long its work takes. One at a time. A null watchdog does nothing.
class PatientWatch {
 public:
  explicit PatientWatch(comm::Watchdog* watchdog) : watchdog_(watchdog) {
    if (watchdog_ != nullptr) watchdog_->be_patient(true);
  }
  ~PatientWatch() {
    if (watchdog_ != nullptr) watchdog_->be_patient(false);
  }
  PatientWatch(const PatientWatch&) = delete;

 private:
  comm::Watchdog* watchdog_;
};

}  // namespace trainyard::engine
