// Runs one computation on the host and on a GPU, and compares: equal bits, or within a tolerance for the dtype.
#pragma once

#include "tests/kernels/gpu_place.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace trainyard::test {

inline bool emulated() { return std::string(tensor::gpu_module().runtime->name) == "emulated"; }
// By day the emulator, which is slow, tries fewer cases.
inline bool by_day() { return emulated() && !testing::at_night(); }

using Outputs = std::vector<MatrixBuffer>;
using Case = std::function<Outputs(Place& place, DType t)>;
enum class Same { bits, tolerance };

inline double tolerance(DType t) {
  return t == DType::bf16 ? 0x1.8p-7 : t == DType::f16 ? 0x1.8p-10 : t == DType::f32 ? 2e-5 : 1e-12;
}

// Runs `one` on the host and on the GPU for the dtypes and compares every output. Gaps between rows must be unchanged.
inline void compare(const Case& one, Same same,
                    const std::vector<DType>& dtypes = {DType::f32, DType::bf16, DType::f16}) {
  for (auto t : dtypes) {
    Place host(Place::Kind::host), gpu(Place::Kind::gpu);
    const auto want = one(host, t), got = one(gpu, t);
    ASSERT_EQ(want.size(), got.size());
    for (std::size_t o = 0; o < want.size(); ++o) {
      ASSERT_TRUE(got[o].gap_untouched()) << "output " << o;
      for (std::int64_t i = 0; i < want[o].rows; ++i)
        for (std::int64_t j = 0; j < want[o].cols; ++j) {
          const double w = want[o](i, j), g = got[o](i, j);
          if (same == Same::bits) ASSERT_EQ(g, w) << base::name_of(t) << " output " << o << " at " << i << "," << j;
          else
            ASSERT_LE(std::abs(g - w), tolerance(t) * (1 + std::abs(w)))
                << base::name_of(t) << " output " << o << " at " << i << "," << j << ": " << g << " for " << w;
        }
    }
  }
}

inline const std::vector<DType> all = {DType::f32, DType::bf16, DType::f64, DType::f16};

}  // namespace trainyard::test
