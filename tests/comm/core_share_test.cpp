// Tests the threads of ranks, computed from the affinity masks that the ranks exchange.
#include "libtrain/comm/core_share.h"
#include "libtrain/comm/threads.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard::comm {
namespace {

std::vector<int> threads_of(const std::vector<base::CoreMask>& masks) {
  std::vector<int> threads(masks.size());
  run_ranks(static_cast<int>(masks.size()), [&](int rank, ThreadsWorld& world) {
    auto control = world.communicator(rank, "control");
    auto exec = tensor::Exec::worker("communication", nullptr);
    threads[static_cast<std::size_t>(rank)] = threads_of_rank(*control, *exec, masks[static_cast<std::size_t>(rank)]);
  });
  return threads;
}

TEST(core_share, bound_ranks_keep_their_masks_and_others_divide_theirs) {
  base::CoreMask low, high, all;
  low.machine = high.machine = all.machine = 1;
  low.cores[0] = 0x0f, high.cores[0] = 0xf0, all.cores[0] = 0xff;
  EXPECT_EQ(threads_of({low, high}), (std::vector{4, 4}));
  EXPECT_EQ(threads_of({all, all}), (std::vector{4, 4}));
  EXPECT_EQ(threads_of({low, low, high, high}), (std::vector{2, 2, 2, 2}));
  EXPECT_EQ(threads_of({all}), (std::vector{8}));
}

}  // namespace
}  // namespace trainyard::comm
