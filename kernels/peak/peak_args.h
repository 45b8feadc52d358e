// Arguments of the peak measurements as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"

#include <cstdint>

namespace trainyard::kernels {

struct PeakArgs {
  std::int64_t rounds = 1;
  int threads = 1;
};
struct StreamArgs {
  const char* from = nullptr;  // null: fill with `byte`
  char* to = nullptr;
  unsigned char byte = 0;
  std::int64_t bytes = 0;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, stream_cpu, (const StreamArgs& args))
TRAINYARD_CPU_KERNEL(std::int64_t, multiply_adds_cpu, (const PeakArgs& args))
TRAINYARD_PRODUCT_KERNEL(std::int64_t, bf16_multiply_adds_cpu, (const PeakArgs& args))

}  // namespace trainyard::kernels
