// The same additions on a GPU, by one thread.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

__global__ void step_numbers_kernel(StepNumbersArgs a) { make_step_numbers(a); }

}  // namespace

const char* gpu::step_numbers(const StepNumbersArgs& a, void* stream) {
  TRAINYARD_LAUNCH(step_numbers_kernel, false, 1, 1, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels
