// A communicator that is slow on purpose, for tests of overlap.
#pragma once

#include "libtrain/comm/communicator.h"

#include <functional>
#include <memory>

namespace trainyard::comm {

// Runs `before_each` before every call of `inner`. It runs as a work item of the Exec, so a worker's busy_seconds()
// counts it. The ledger is `inner`'s.
std::unique_ptr<Communicator> delayed(std::unique_ptr<Communicator> inner, std::function<void()> before_each);
std::unique_ptr<Communicator> delayed(std::unique_ptr<Communicator> inner, double seconds_per_call);  // sleeps

}  // namespace trainyard::comm
