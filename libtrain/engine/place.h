// The device and threads of a rank, and the communicators between the devices of ranks.
#pragma once

#include "libtrain/comm/gpu_share.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/world.h"

namespace trainyard::engine {

// The device of a rank.
struct Place {
  base::Device device;
  comm::GpuShare share;  // set for GPUs only
};
// --device auto becomes the kind of device that rank 0 has; then every rank must have that kind. The GPU of a rank is
// its number on the node (local_rank) modulo the GPUs that it sees, so several ranks may share one. Collective.
Place agree_on_device(RunConfig& config, World& world, tensor::Exec& exec);

// Gives the world communicators for GPU memory. They are NCCL if every rank has a GPU of its own, or if the settings
// ask for it. Otherwise the world's own communicators carry the data through pinned host memory. The compute thread
// issues the calls, on a stream of their own. Collective.
void move_to_gpu(const RunConfig& config, World& world, const Place& place);

// Rank 0 reports on the number of threads. `asked` is --threads (0: not given), `share` the rank's share of the cores.
// A warning if --threads or OMP_NUM_THREADS asks for more threads than the rank has cores, which is legal and slow. A
// line if OMP_NUM_THREADS gives fewer threads than the share.
void report_threads(int asked, int share, const World& world);

}  // namespace trainyard::engine
