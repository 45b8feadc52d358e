// Sets the first row of each group.
#include "kernels/slot_groups/slot_groups.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

void slot_groups(tensor::Exec& exec, base::View groups, std::int64_t slot_rows) {
  require_type(groups, base::DType::i32, "slot_groups", "groups");
  TRAINYARD_ASSERT(groups.cols() == 2 && groups.dense(), "groups of {} numbers", groups.cols());
  if (groups.rows() == 0) return;
  const SlotGroupsArgs args{.groups = groups.ptr<std::int32_t>(), .n = groups.rows(), .slot_rows = slot_rows};
  exec.run([&exec, args] {
    if (exec.on_gpu())
      return tensor::require_gpu(gpu_kernels().slot_groups(args, exec.stream()), "slot_groups on the GPU");
    for (std::int64_t g = 0; g < args.n; ++g) args.groups[2 * g] = static_cast<std::int32_t>(g * args.slot_rows);
  });
}

}  // namespace trainyard::kernels
