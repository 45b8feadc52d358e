// Checks and dispatches the joining and the splitting of master weights.
#include "kernels/update/remainder.h"

#include "kernels/gpu_kernels.h"
#include "kernels/update/remainder_check.h"

namespace trainyard::kernels {

namespace {

void require_master(const base::ConstView& master, const Remainder& remainder, const base::ConstView& working,
                    const char* operation) {
  require_type(master, base::DType::f32, operation, "master");
  TRAINYARD_ASSERT(master.dense(), "{}: a master with gaps", operation);
  require_remainder(remainder, working, master.count(), operation);
}

const std::uint16_t* bits_of(const base::ConstView& working) { return static_cast<const std::uint16_t*>(working.data); }

}  // namespace

void join_master(tensor::Exec& exec, base::ConstView working, const Remainder& remainder, base::View master) {
  require_master(master, remainder, working, "join_master");
  const JoinMasterArgs args{.working = bits_of(working),
                            .remainder = remainder_part(remainder),
                            .master = master.ptr<float>(),
                            .n = master.count(),
                            .threads = exec.threads()};
  exec.run([&exec, args] {
    if (exec.on_gpu()) tensor::require_gpu(gpu_kernels().update_join(args, exec.stream()), "update_join on the GPU");
    else TRAINYARD_CPU_CALL(update_join_cpu, (args));
  });
}

void split_master(tensor::Exec& exec, base::ConstView master, base::View working, const Remainder& remainder) {
  require_master(master, remainder, working, "split_master");
  const SplitMasterArgs args{.master = master.ptr<float>(),
                             .working = static_cast<std::uint16_t*>(working.data),
                             .remainder = remainder_part(remainder),
                             .n = master.count(),
                             .threads = exec.threads()};
  exec.run([&exec, args] {
    if (exec.on_gpu()) tensor::require_gpu(gpu_kernels().update_split(args, exec.stream()), "update_split on the GPU");
    else TRAINYARD_CPU_CALL(update_split_cpu, (args));
  });
}

}  // namespace trainyard::kernels
