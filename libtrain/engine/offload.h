// Where the states and the inputs of layers of a rank are kept that a plan has on disk.
#pragma once

#include "libtrain/engine/memory.h"
#include "libtrain/model/offloaded_inputs.h"
#include "libtrain/params/offloaded_states.h"
#include "libtrain/plan/offload_folders.h"
#include "libtrain/plan/plan.h"

#include <memory>
#include <vector>

namespace trainyard::engine {

// Makes the files of rank `rank` in `folders`, which share its bytes by weight, and reserves their space. The storage
// also has the extents of inputs of layers, behind those of states. Null if the plan has nothing elsewhere.
// EnvironmentError as io::DiskStorage.
std::unique_ptr<params::OffloadedStates> offloaded_states(const plan::Plan& plan, int rank,
                                                          const plan::FlatGroupSet& set, RankMemory& memory,
                                                          tensor::Exec& compute,
                                                          const std::vector<plan::OffloadFolder>& folders);

// The inputs of layers that the rank has in the storage of `states`. Null if it has none there.
std::unique_ptr<model::OffloadedInputs> offloaded_inputs(const plan::Plan& plan, int rank,
                                                         params::OffloadedStates* states, RankMemory& memory);

}  // namespace trainyard::engine
