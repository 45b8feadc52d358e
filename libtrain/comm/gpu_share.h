// Which ranks compute on the same GPU.
#pragma once

#include "libtrain/comm/communicator.h"

namespace trainyard::comm {

struct GpuShare {
  int ranks = 1;         // of the job that compute on this rank's GPU, this one among them
  bool one_each = true;  // every rank of the job has a GPU that no other rank has
};

// Collective over `control`, a communicator of host memory. Devices are compared by their identifiers (UUID), because a
// device number says nothing where the launcher shows each rank a GPU of its own (srun --gpus-per-task=1,
// CUDA_VISIBLE_DEVICES). device -1, or one that cannot be asked: this rank has no GPU, and no two ranks are said to
// share none.
GpuShare gpu_share(Communicator& control, tensor::Exec& exec, int device);

}  // namespace trainyard::comm
