// The runtime of the GPU module that this file is compiled into.
#pragma once

#include "libtrain/tensor/gpu.h"

namespace trainyard::tensor {

const GpuRuntime& gpu_runtime();

}  // namespace trainyard::tensor
