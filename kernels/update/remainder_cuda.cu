// Joins and splits master weights, 8 elements a thread.
#include "kernels/gpu_entries.h"
#include "kernels/update/remainder_device.h"

namespace trainyard::kernels {
namespace {

template <bool whole> __global__ void join_master_kernel(JoinMasterArgs a, std::int64_t groups) {
  TRAINYARD_EACH(group, groups) {
    const auto g = marked_group<whole>(a.remainder, group, a.n);
    const auto m = master_group<whole>(reinterpret_cast<const b16*>(a.working), a.remainder, group, g);
    Vec<float, 8> master;
    over_group<whole>(g, [&](int k) { master.v[k] = m.master(k); });
    put_group<whole>(a.master, master, g);
  }
}

template <bool whole> __global__ void split_master_kernel(SplitMasterArgs a, std::int64_t groups) {
  TRAINYARD_EACH(group, groups) {
    const auto g = marked_group<whole>(a.remainder, group, a.n);
    auto* working = reinterpret_cast<b16*>(a.working);
    Vec<float, 8> master;
    get_group<whole>(master, a.master, g);
    MasterGroup m;
    m.marks = a.remainder.marks[group];
    over_group<whole>(g, [&](int k) { m.set(k, master.v[k]); });
    put_master_group<whole>(working, a.remainder, group, g, m);
  }
}

template <class Args> const char* launch_master(void (*some)(Args, std::int64_t), void (*all)(Args, std::int64_t),
                                                const Args& a, void* stream) {
  const bool whole =
      in_groups_of_marks(a.remainder, a.working, a.n) && reinterpret_cast<std::uintptr_t>(a.master) % 32 == 0;
  const auto groups = groups_of_marks(a.remainder, a.n);
  const auto kernel = whole ? all : some;
  TRAINYARD_LAUNCH(kernel, false, blocks_for(groups), 256, stream, a, groups);
  return launch_failure();
}

}  // namespace

const char* gpu::update_join(const JoinMasterArgs& a, void* stream) {
  return launch_master(join_master_kernel<false>, join_master_kernel<true>, a, stream);
}

const char* gpu::update_split(const SplitMasterArgs& a, void* stream) {
  return launch_master(split_master_kernel<false>, split_master_kernel<true>, a, stream);
}

}  // namespace trainyard::kernels
