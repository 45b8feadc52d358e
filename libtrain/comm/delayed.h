// A communicator that is slow on purpose: for tests of overlap.
#pragma once

#include "libtrain/comm/communicator.h"

#include <memory>

namespace trainyard::comm {

// Sleeps on the Exec before every call of `inner`, inside the work item, so that a worker's busy_seconds() counts it. The ledger is that of `inner`.
std::unique_ptr<Communicator> delayed(std::unique_ptr<Communicator> inner, double seconds_per_call);

}  // namespace trainyard::comm
