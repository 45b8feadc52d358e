// Updates a gate's choice biases.
#include "kernels/even_load/even_load.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

void even_load_update(tensor::Exec& exec, base::View bias, base::ConstView loads, double mean, float rate,
                      const StepNumbers* numbers) {
  require_type(bias, base::DType::f32, "even_load_update", "bias");
  require_type(loads, base::DType::f32, "even_load_update", "loads");
  TRAINYARD_ASSERT(bias.count() == loads.count() && bias.dense() && loads.dense(), "{} biases for {} loads",
                   bias.count(), loads.count());
  const EvenLoadArgs args{.bias = bias.ptr<float>(),
                          .loads = loads.ptr<float>(),
                          .n = bias.count(),
                          .mean = mean,
                          .rate = rate,
                          .numbers = numbers};
  exec.run([&exec, args] {
    if (exec.on_gpu()) return tensor::require_gpu(gpu_kernels().even_load(args, exec.stream()), "even_load on the GPU");
    if (args.numbers != nullptr && args.numbers->finite == 0) return;
    for (std::int64_t i = 0; i < args.n; ++i) args.bias[i] = evened(args.bias[i], args.loads[i], args.mean, args.rate);
  });
}

}  // namespace trainyard::kernels
