// Update of a gate's biases, one thread for each.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

__global__ void even_load_kernel(EvenLoadArgs a) {
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  TRAINYARD_EACH(i, a.n) a.bias[i] = evened(a.bias[i], a.loads[i], a.mean, a.rate);
}

}  // namespace

const char* gpu::even_load(const EvenLoadArgs& a, void* stream) {
  TRAINYARD_LAUNCH(even_load_kernel, false, blocks_for(a.n), 256, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels
