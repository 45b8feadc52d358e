// How many threads a rank should have, given the other ranks of its machine.
#pragma once

#include "libtrain/base/cores.h"
#include "libtrain/comm/communicator.h"

namespace trainyard::comm {

// Collective over `control`, a communicator of host memory. Gathers the affinity masks of all ranks; base::fair_threads
// then divides the cores that several ranks may use. No launcher is asked how it binds ranks.
int threads_of_rank(Communicator& control, tensor::Exec& exec, const base::CoreMask& mine = base::own_core_mask());
// The cores that the ranks of this machine may use together, or their quotas if these are less. Collective.
int cores_of_machine(Communicator& control, tensor::Exec& exec, const base::CoreMask& mine = base::own_core_mask());

}  // namespace trainyard::comm
