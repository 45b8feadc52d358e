// A communicator that is slow on purpose: for tests of overlap.
#pragma once

#include "libtrain/comm/communicator.h"

#include <functional>
#include <memory>

namespace trainyard::comm {

// Does something on the Exec before every call of `inner`, as a work item of it, so that a worker's busy_seconds()
// counts it. The ledger is that of `inner`.
std::unique_ptr<Communicator> delayed(std::unique_ptr<Communicator> inner, std::function<void()> before_each);
std::unique_ptr<Communicator> delayed(std::unique_ptr<Communicator> inner, double seconds_per_call);  // sleeps

}  // namespace trainyard::comm
