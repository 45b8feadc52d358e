// The NCCL communicator: collectives between GPUs, issued on the stream of the Exec they are given.
#pragma once

#include "libtrain/comm/communicator.h"

#include <memory>
#include <string>

namespace trainyard::comm {

// Can NCCL be opened? The library is TRAINYARD_NCCL_LIBRARY, else libnccl.so.2. It is opened at the first question, so
// that programs start without it.
bool nccl_available();
// "2.28.3"; throws EnvironmentError without the library.
std::string nccl_version();

// Collective over `control`, a communicator of host memory over the same ranks, which carries NCCL's unique id.
// `device` is this rank's GPU. NCCL refuses two ranks of a group on one GPU (EnvironmentError). All calls take GPU
// Execs and device views. One thread issues them, and they return at once, except for barrier(). The ordered reduction
// consists of grouped sends and receives and the kernel kernels/ordered_sum; reduce_scatter is NCCL's own. In the
// ledger a call stays open until the device has done it, so that the watchdog sees a hang. An asynchronous error aborts
// the communicator, and the next call throws it as PeerError (exit code 6). Destructors free; they never communicate.
std::unique_ptr<Communicator> make_nccl(std::string group, int device, Communicator& control);
// Another group name with a ledger of its own, over the same NCCL communicator. `of` is one that make_nccl made, and it
// outlives the new one.
std::unique_ptr<Communicator> nccl_group(std::string group, Communicator& of);

}  // namespace trainyard::comm
