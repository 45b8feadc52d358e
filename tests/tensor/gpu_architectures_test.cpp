// Which GPUs a module's code runs on, by the rules of the CUDA C++ programming guide (binary and PTX compatibility).
#include "libtrain/tensor/gpu.h"

#include <gtest/gtest.h>

namespace trainyard::tensor {
namespace {

TEST(GpuArchitectures, MachineCodeAndPtx) {
  EXPECT_TRUE(runs_on("90", 9, 0));
  EXPECT_TRUE(runs_on("90", 10, 0));  // by PTX
  EXPECT_FALSE(runs_on("90", 8, 0));
  EXPECT_FALSE(runs_on("90", 8, 9));
  EXPECT_TRUE(runs_on("80,90", 8, 0));
  EXPECT_TRUE(runs_on("80,90", 8, 6));
  EXPECT_FALSE(runs_on("80,90", 7, 5));
  EXPECT_TRUE(runs_on("80-real", 8, 9));
  EXPECT_FALSE(runs_on("80-real", 9, 0));
  EXPECT_TRUE(runs_on("80-virtual", 9, 0));
  EXPECT_TRUE(runs_on("90a", 9, 0));
  EXPECT_FALSE(runs_on("90a", 10, 0));
  EXPECT_TRUE(runs_on("", 5, 0));  // the emulated module
  EXPECT_TRUE(runs_on("native", 8, 6));
}

}  // namespace
}  // namespace trainyard::tensor
