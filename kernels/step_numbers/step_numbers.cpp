// Dispatches. On the CPU the calling thread does the few additions.
#include "kernels/step_numbers/step_numbers.h"

#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

void step_numbers(tensor::Exec& exec, const StepNumbersArgs& args) {
  TRAINYARD_ASSERT(args.rows.ranks * args.places >= args.micros && args.out != nullptr,
                   "{} micro-batches in {} x {} places", args.micros, args.rows.ranks, args.places);
  if (exec.on_gpu())
    return tensor::require_gpu(gpu_kernels().step_numbers(args, exec.stream()), "step_numbers on the GPU");
  exec.run([args] { make_step_numbers(args); });
}

}  // namespace trainyard::kernels
