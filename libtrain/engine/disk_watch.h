// DiskWatch: how long a rank is blocked on the disk in each step, and the rates that its steps reach there.
#pragma once

#include "libtrain/base/storage.h"

#include <functional>
#include <string>
#include <utility>

namespace trainyard::engine {

// Steps are begun and ended in order, and several may be under way. What passes between the end of the last one and the
// beginning of the next, such as a validation, belongs to none.
class DiskWatch {
 public:
  // blocked(): seconds that the rank was blocked on the disk so far. Empty: nothing is offloaded.
  explicit DiskWatch(std::function<double()> blocked) : blocked_so_far_(std::move(blocked)) {}
  void begin_step();
  // The seconds that the rank was blocked since the step began, or since the step before ended, if that is later. -1 if
  // nothing is offloaded.
  double end_step();
  // The step that ended took so long.
  void add(double step_seconds) { step_seconds_ += step_seconds; }

  // "disk: 56.4 MB read and 41.1 MB written in steps (12.3 MB/s and 9.01 MB/s); steps were blocked 0.12 s of 4.58 s",
  // of all steps that were added. `moved`: bytes of these steps. Empty without a step, and if nothing is offloaded.
  std::string text(const base::StorageTotals& moved) const;

 private:
  std::function<double()> blocked_so_far_;
  int under_way_ = 0;
  double since_ = 0, blocked_ = 0, step_seconds_ = 0;
};

}  // namespace trainyard::engine
