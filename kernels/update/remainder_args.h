// Arguments of kernels on master weights that are kept as working copy and remainder, as plain data.
#pragma once

#include "kernels/dispatch.h"

#include <cstdint>

namespace trainyard::kernels {

// The remainder of some elements: low[i], and bit (shift + i) % 8 of marks[(shift + i) / 8].
struct RemainderPart {
  std::uint16_t* low = nullptr;
  std::uint8_t* marks = nullptr;
  int shift = 0;  // 0 to 7
  bool empty() const { return low == nullptr; }
};

// Elements whose marks share a byte have one thread: groups of 8, of which the first and the last may be parts.
inline std::int64_t groups_of_marks(const RemainderPart& part, std::int64_t elements) {
  return elements == 0 ? 0 : (part.shift + elements + 7) / 8;
}

struct JoinMasterArgs {
  const std::uint16_t* working = nullptr;
  RemainderPart remainder;
  float* master = nullptr;
  std::int64_t n = 0;
  int threads = 1;
};
struct SplitMasterArgs {
  const float* master = nullptr;
  std::uint16_t* working = nullptr;
  RemainderPart remainder;
  std::int64_t n = 0;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, update_join_cpu, (const JoinMasterArgs& args))
TRAINYARD_CPU_KERNEL(void, update_split_cpu, (const SplitMasterArgs& args))

}  // namespace trainyard::kernels
