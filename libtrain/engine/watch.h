// The watchdog over the ranks of a world: over their lives, over the calls of a start, and over those of steps.
#pragma once

#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/world.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::engine {

// Every rank starts one and tells the others where it listens; null for a world of one. From here on a rank that ends
// without a word ends the job, and so does one that stays silent while others wait for it in a call of World::control:
// World::on_hang is told, or `otherwise` where there is none. Collective, on `exec`.
std::unique_ptr<comm::Watchdog> watch_peers(
    World& world, tensor::Exec& exec, double timeout_seconds,
    std::function<void(const std::string& sentence, comm::Decided where)> otherwise);

// From here on the calls of all groups. Of a start: a rank that answers may work alone, on a plan or a checkpoint, and
// let others wait for as long as that takes; a job ends where one stays silent, or all wait for one another. Of steps:
// also where a call is not completed in time. The world keeps its communicators for as long as the watchdog lives.
// Nothing to do for null.
enum class Calls { of_a_start, of_steps };
// Their ledgers: on every rank the same groups in the same order, of whatever layout at most comm::watched_limit.
std::vector<comm::WatchedLedger> watched_calls(const World& world, Calls calls);
void watch_calls(comm::Watchdog* watchdog, const World& world, Calls calls);

// For as long as it lives ranks may wait for one another's files, as for a slow disk: one that answers is not missing,
// however long that takes. One at a time; nothing to do for null.
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
