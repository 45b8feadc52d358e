// The main of a test that needs a GPU module with a device. Without one it returns 77, which ctest reports as skipped.
#pragma once

#include "libtrain/tensor/gpu.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace trainyard::testing {

inline int run_on_gpu(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!tensor::gpu_available()) {
    std::puts("skipped: no GPU module with a device");
    return 77;
  }
  return RUN_ALL_TESTS();
}

}  // namespace trainyard::testing
