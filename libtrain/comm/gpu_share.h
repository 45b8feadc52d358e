// Which ranks compute on the same GPU.
#pragma once

#include "libtrain/comm/communicator.h"

namespace trainyard::comm {

struct GpuShare {
  int ranks = 1;         // ranks of the job that compute on this rank's GPU, including this one
  bool one_each = true;  // every rank of the job has a GPU that no other rank has
};

// Collective over `control`, a communicator of host memory. Compares devices by their identifiers (UUID). A device
// number means nothing where the launcher shows each rank a GPU of its own (srun --gpus-per-task=1,
// CUDA_VISIBLE_DEVICES). With device -1, or a device that cannot be queried, this rank has no GPU. Ranks without a GPU
// share nothing.
GpuShare gpu_share(Communicator& control, tensor::Exec& exec, int device);

}  // namespace trainyard::comm
