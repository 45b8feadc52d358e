// How many threads a rank should have beside the others of its machine.
#pragma once

#include "libtrain/base/cores.h"
#include "libtrain/comm/communicator.h"

namespace trainyard::comm {

// Collective over `control`, a communicator of host memory: all masks are gathered, and base::fair_threads divides what
// ranks hold together. No launcher is asked how it binds.
int threads_of_rank(Communicator& control, tensor::Exec& exec, const base::CoreMask& mine = base::own_core_mask());

}  // namespace trainyard::comm
