// Joins and splits master weights, in blocks that the threads share.
#include "kernels/update/remainder_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {

void update_join_cpu(const JoinMasterArgs& a) {
  over_blocks_of_marks(a.remainder, a.n, a.threads, [&](std::int64_t from, std::int64_t to) {
    join_row(a.master + from, a.working, a.remainder, from, to - from);
  });
}

void update_split_cpu(const SplitMasterArgs& a) {
  over_blocks_of_marks(a.remainder, a.n, a.threads, [&](std::int64_t from, std::int64_t to) {
    split_row(a.master + from, a.working, a.remainder, from, to - from);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
