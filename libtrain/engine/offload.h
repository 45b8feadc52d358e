// Where the states of a rank are kept that a plan has on disk.
#pragma once

#include "libtrain/engine/memory.h"
#include "libtrain/params/offloaded_states.h"
#include "libtrain/plan/offload_folders.h"
#include "libtrain/plan/plan.h"

#include <memory>
#include <vector>

namespace trainyard::engine {

// Makes the files of rank `rank` in `folders`, which share its bytes by weight, and reserves their space.
// Null if the plan has nothing on disk. EnvironmentError as io::DiskStorage.
std::unique_ptr<params::OffloadedStates> offloaded_states(const plan::Plan& plan, int rank,
                                                          const plan::FlatGroupSet& set, RankMemory& memory,
                                                          tensor::Exec& compute,
                                                          const std::vector<plan::OffloadFolder>& folders);

}  // namespace trainyard::engine
