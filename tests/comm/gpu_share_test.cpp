// Tests whether each rank has a GPU of its own. Identifiers decide, not a launcher's device numbers. 77 without a GPU.
#include "libtrain/comm/gpu_share.h"

#include "libtrain/comm/mpi.h"
#include "libtrain/tensor/gpu.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

namespace trainyard::comm {
namespace {

MpiRuntime* runtime = nullptr;
bool emulated() { return std::string(tensor::gpu_module().runtime->name) == "emulated"; }

GpuShare share_of(int device) {
  std::vector<int> all(static_cast<std::size_t>(runtime->size()));
  std::iota(all.begin(), all.end(), 0);
  const auto control = runtime->split("control", all);
  const auto exec = tensor::Exec::caller(nullptr, 1);
  return gpu_share(*control, *exec, device);
}

// Sets a variable of the emulator: which GPU this process sees as its number 0.
void sees_first(int gpu) { setenv("TRAINYARD_EMULATED_FIRST_GPU", std::to_string(gpu).c_str(), 1); }

TEST(GpuShare, NumberZeroOfEveryRankCanBeAnotherGpu) {
  if (!emulated()) GTEST_SKIP() << "the emulator's variable decides";
  sees_first(runtime->rank());
  const auto share = share_of(0);
  EXPECT_EQ(share.ranks, 1);
  EXPECT_TRUE(share.one_each);
}

TEST(GpuShare, AnotherNumberCanBeTheSameGpu) {
  if (!emulated()) GTEST_SKIP() << "the emulator's variable decides";
  sees_first(8 - runtime->rank());
  const auto share = share_of(runtime->rank());
  EXPECT_EQ(share.ranks, runtime->size());
  EXPECT_EQ(share.one_each, runtime->size() == 1);
}

TEST(GpuShare, OnePairIsEnoughToSayNo) {
  if (!emulated() || runtime->size() < 3) GTEST_SKIP() << "needs three ranks on the emulator";
  sees_first(runtime->rank() == 2 ? 0 : runtime->rank());
  const auto share = share_of(0);
  EXPECT_EQ(share.ranks, runtime->rank() == 0 || runtime->rank() == 2 ? 2 : 1);
  EXPECT_FALSE(share.one_each);
}

TEST(GpuShare, ARankWithoutAGpuSharesNone) {
  if (emulated()) sees_first(0);
  const auto share = share_of(runtime->rank() == 0 ? -1 : 0);
  EXPECT_EQ(share.ranks, std::max(1, runtime->rank() == 0 ? 1 : runtime->size() - 1));
  EXPECT_FALSE(share.one_each);
}

}  // namespace
}  // namespace trainyard::comm

int main(int argc, char** argv) {
  using namespace trainyard;
  if (!tensor::gpu_available()) {
    std::puts("skipped: no GPU module with a device");
    return 77;
  }
  comm::MpiRuntime mpi;
  comm::runtime = &mpi;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
