// Update of a gate's biases, one thread for each, or for 8 that are split.
#include "kernels/gpu_entries.h"
#include "kernels/update/remainder_device.h"

namespace trainyard::kernels {
namespace {

__global__ void even_load_kernel(EvenLoadArgs a) {
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  auto* bias = static_cast<float*>(a.bias);
  TRAINYARD_EACH(i, a.n) bias[i] = evened(bias[i], a.loads[i], a.mean, a.rate);
}

__global__ void even_split_load_kernel(EvenLoadArgs a, std::int64_t groups) {
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  auto* working = static_cast<b16*>(a.bias);
  TRAINYARD_EACH(group, groups) {
    const auto g = marked_group<false>(a.remainder, group, a.n);
    auto master = master_group<false>(working, a.remainder, group, g);
    over_group<false>(g, [&](int k) { master.set(k, evened(master.master(k), a.loads[g.at + k], a.mean, a.rate)); });
    put_master_group<false>(working, a.remainder, group, g, master);
  }
}

}  // namespace

const char* gpu::even_load(const EvenLoadArgs& a, void* stream) {
  if (a.remainder.empty()) {
    TRAINYARD_LAUNCH(even_load_kernel, false, blocks_for(a.n), 256, stream, a);
  } else {
    const auto groups = groups_of_marks(a.remainder, a.n);
    TRAINYARD_LAUNCH(even_split_load_kernel, false, blocks_for(groups), 256, stream, a, groups);
  }
  return launch_failure();
}

}  // namespace trainyard::kernels
