// The NCCL communicator: collectives between GPUs, issued on the stream of the Exec they are given.
#pragma once

#include "libtrain/comm/communicator.h"

#include <memory>
#include <string>

namespace trainyard::comm {

// Is NCCL there: TRAINYARD_NCCL_LIBRARY, else libnccl.so.2. Opened when first asked for, so that programs start without
// it.
bool nccl_available();
// "2.28.3"; EnvironmentError without the library.
std::string nccl_version();

// Collective over `control`, a communicator of host memory over the same ranks, which carries NCCL's unique id.
// `device` is this rank's GPU; NCCL refuses two ranks of a group on one GPU (EnvironmentError). All calls take GPU
// Execs and device views, are issued by one thread, and return at once. An ordered reduction is grouped sends and
// receives and the fold kernel; reduce_scatter is the library's. The ledger's call stays open until the device has done
// it, so that the watchdog sees a hang; an asynchronous error aborts the communicator and is thrown as PeerError (exit
// 6) by the next call. Destructors free; they never communicate.
std::unique_ptr<Communicator> make_nccl(std::string group, int device, Communicator& control);
// Another group name, with a ledger of its own, over the same NCCL communicator; `of` is one that make_nccl made and
// outlives it.
std::unique_ptr<Communicator> nccl_group(std::string group, Communicator& of);

}  // namespace trainyard::comm
