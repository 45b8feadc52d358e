// A communicator of host memory made to serve a GPU: data passes through pinned memory.
#pragma once

#include "libtrain/comm/communicator.h"

#include <memory>

namespace trainyard::comm {

// On a GPU Exec every call copies its operands to the host in the order of the stream and waits. Then `inner`
// communicates, and the call copies the results back without waiting. So there is hardly any overlap, but any
// communicator and any number of ranks on one GPU work. On a CPU Exec calls go to `inner` as they are. Pinned buffers
// grow to the largest call and stay allocated; they are not in the memory ledger. The ledger of calls and bytes is
// `inner`'s.
std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator> inner);
std::unique_ptr<Communicator> staged(Communicator& inner);  // `inner` outlives it

}  // namespace trainyard::comm
