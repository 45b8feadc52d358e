// A gate's record, by one block, because it has only a few hundred numbers.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

__global__ void record_kernel(GateRecordArgs a) {
  for (std::int64_t e = threadIdx.x; e < a.experts; e += blockDim.x) {
    if (a.as_numbers.type == Type::f64 && !a.as_numbers.empty()) a.as_numbers.row<double>(0)[e] = a.loads[e];
    else if (!a.as_numbers.empty()) a.as_numbers.row<float>(0)[e] = static_cast<float>(a.loads[e]);
    if (a.record != nullptr) a.record[gate_record_sums + e] += a.loads[e];
  }
  if (threadIdx.x > 0 || a.record == nullptr) return;
  for (std::int64_t e = 0; e < a.experts; ++e) a.record[kept_places] += a.groups[2 * e + 1];
  for (int loss = 0; loss < 3; ++loss) {
    const double sum = a.losses[loss] * *a.targets;
    if (fabs(sum) < 0x1p40) a.record[balance_sum + loss] += static_cast<std::int64_t>(rint(sum / gate_record_unit));
  }
  a.record[target_sum] += static_cast<std::int64_t>(*a.targets);
}

}  // namespace

const char* gpu::gate_record(const GateRecordArgs& a, void* stream) {
  TRAINYARD_LAUNCH(record_kernel, false, 1u, 256, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels
