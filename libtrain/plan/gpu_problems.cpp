// Limits of the kernels of a GPU.
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/decision_problems.h"

#include <fmt/format.h>

namespace trainyard::plan {

void gpu_problems(const Plan& p, std::vector<Problem>& out) {
  if (p.device != base::DeviceKind::cuda) return;
  if (p.model.head_dim() > gpu_head_size_limit)
    out.push_back({fmt::format("the model's heads are {} wide, and attention on a GPU takes heads up to {}",
                               p.model.head_dim(), gpu_head_size_limit),
                   base::text("more heads, or $device cpu")});
}

}  // namespace trainyard::plan
