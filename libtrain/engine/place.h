// Where a rank computes, with how many threads, and what carries data between the ranks from there.
#pragma once

#include "libtrain/comm/gpu_share.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/world.h"

namespace trainyard::engine {

// "auto" becomes what rank 0 has; then every rank must have it. The GPU of a rank is its place on the node, modulo the
// GPUs it sees, so several ranks may share one. Collective.
struct Place {
  base::Device device;
  comm::GpuShare share;  // of GPUs alone
};
Place agree_on_device(RunConfig& config, World& world, tensor::Exec& exec);

// NCCL where every rank has a GPU of its own, or where it is asked for; else the world's own communicator through
// pinned host memory. Calls are issued by the compute thread, on a stream of their own. Collective.
void move_to_gpu(const RunConfig& config, World& world, const Place& place);

// What rank 0 says of --threads (0: not given): a warning when more are asked for than it has cores, by that or by
// OMP_NUM_THREADS (they are legal, and slow); a line when OMP_NUM_THREADS decides on fewer.
void tell_of_threads(int asked, int share, const World& world);

}  // namespace trainyard::engine
