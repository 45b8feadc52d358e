// Groups in slots, one thread for each.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

__global__ void slot_groups_kernel(SlotGroupsArgs a) {
  TRAINYARD_EACH(g, a.n) a.groups[2 * g] = static_cast<std::int32_t>(g * a.slot_rows);
}

}  // namespace

const char* gpu::slot_groups(const SlotGroupsArgs& a, void* stream) {
  TRAINYARD_LAUNCH(slot_groups_kernel, false, blocks_for(a.n), 256, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels
