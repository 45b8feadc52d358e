// A communicator of host memory made to serve a GPU: data passes through pinned memory.
#pragma once

#include "libtrain/comm/communicator.h"

#include <memory>

namespace trainyard::comm {

// On a GPU Exec every call brings its operands to the host in the order of the stream, waits, lets `inner` communicate,
// and sends the results back without waiting: hardly any overlap, but any communicator and any number of ranks on one
// GPU. On a CPU Exec calls go to `inner` as they are. Pinned buffers grow to the largest call and stay; they lie
// outside the ledger. The ledger of calls and bytes is that of `inner`.
std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator> inner);
std::unique_ptr<Communicator> staged(Communicator& inner);  // `inner` outlives it

}  // namespace trainyard::comm
