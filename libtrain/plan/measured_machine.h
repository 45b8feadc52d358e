// MeasuredMachine: what profile-comm measured of the machine at hand, for step times.
#pragma once

#include "libtrain/plan/cost/sized_calls.h"
#include "libtrain/plan/links/profile.h"
#include "libtrain/plan/machine/machine.h"
#include "libtrain/plan/measured_blocks.h"
#include "libtrain/plan/offload_time.h"
#include "libtrain/plan/plan.h"

#include <memory>
#include <optional>
#include <string>

namespace trainyard::plan {

struct MeasuredMachine {
  explicit MeasuredMachine(const Profile& profile);

  MeasuredBlocks blocks;
  double update_rate = 0;      // B/s of a rank, that AdamW reads and writes; 0: not measured
  StorageRates storage;        // of a rank, in all folders together; 0: not measured
  int threads = 1, ranks = 1;  // of a rank; ranks that measured together
  // How many ranks a node had when blocks were measured, for each core that they kept busy; at least 1. Above 1, ranks
  // share cores, so each is faster while others wait.
  double ranks_of_core = 1;
  bool spare_cores = false;  // a node had a core more for each rank than blocks kept busy
  // How much faster and slower the machine was at some times of the measurement than in the median, at least 1: what
  // one turn through all blocks took, in nine of ten turns.
  double at_times_faster = 1, at_times_slower = 1;

  // A call as it was measured, over groups of as many ranks if there are such, else of the nearest number. nullopt: the
  // operation was not measured.
  std::optional<double> seconds(const SizedCalls& call) const;
  std::optional<double> message_seconds(double bytes) const;  // from a pipeline stage to the next one

 private:
  const CommSeries* series_of(const std::string& operation, const std::string& group, int ranks,
                              base::DType type) const;
  std::vector<CommSeries> communication_;
  bool several_nodes_ = false;
};

// The machine of a profile: its rates are those of the profile. InputError, which names `where`, if the profile lacks
// products or the rate of memory (profile-comm --local).
Machine measured_machine(const Profile& profile, const std::string& where);

// A machine by its name, from its TOML file, or from a profile, which is JSON. UsageError, InputError.
Machine machine_at(const std::string& name_or_file);

// In what the plan differs from what was measured, as a sentence: other threads, other ranks, blocks that are only
// estimated. Empty if in nothing, and for a published machine.
std::string measured_otherwise(const Plan& plan, const Machine& machine);

}  // namespace trainyard::plan
