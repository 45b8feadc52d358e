// Where the states and the inputs of layers of a rank are kept that a plan has on disk.
#pragma once

#include "libtrain/engine/memory.h"
#include "libtrain/engine/world.h"
#include "libtrain/model/offloaded_inputs.h"
#include "libtrain/params/offloaded_states.h"
#include "libtrain/plan/offload_folders.h"
#include "libtrain/plan/plan.h"

#include <memory>
#include <vector>

namespace trainyard::engine {

// UsageError, which names both, if two of the paths are one folder of this machine: its bytes would have a wrong share.
void require_several_folders(const std::vector<plan::OffloadFolder>& folders);

// For a dry run: EnvironmentError where a rank could not make its files in `folders`, or where the ranks of a machine
// together have not enough room there. A start makes `output`, so where that is one of them, it need not be there.
// Makes no file with a name, and takes no space. Collective.
void require_room(const plan::Plan& plan, World& world, tensor::Exec& exec,
                  const std::vector<plan::OffloadFolder>& folders, const std::string& output);

// Makes the files of rank `rank` in `folders`, which share its bytes by weight, and reserves their space. The storage
// also has the extents of inputs of layers, behind those of states. Null if the plan has nothing elsewhere.
// EnvironmentError as io::DiskStorage.
std::unique_ptr<params::OffloadedStates> offloaded_states(const plan::Plan& plan, int rank,
                                                          const plan::FlatGroupSet& set, RankMemory& memory,
                                                          tensor::Exec& compute,
                                                          const std::vector<plan::OffloadFolder>& folders);

// The inputs of layers that the rank has in the storage of `states`, or on its host. Null if it has none there.
std::unique_ptr<model::OffloadedInputs> offloaded_inputs(const plan::Plan& plan, int rank,
                                                         params::OffloadedStates* states, RankMemory& memory,
                                                         tensor::Exec& compute);

}  // namespace trainyard::engine
