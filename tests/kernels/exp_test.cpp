// Tests the exponential and tanh of kernels over all sizes of arguments.
#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace trainyard::kernels {

TRAINYARD_CPU_VARIANTS(void, exponentials,
                       (int n, const float* x, float* of_registers, float* least, float* one_by_one))
TRAINYARD_CPU_VARIANTS(void, tangents, (int n, const float* x, float* of_registers))

namespace {

struct Path {
  Isa isa;
  void (*run)(int, const float*, float*, float*, float*);
  void (*tangents)(int, const float*, float*);
};
const Path paths[] = {{Isa::baseline, baseline::exponentials, baseline::tangents},
                      {Isa::avx2, avx2::exponentials, avx2::tangents},
                      {Isa::avx512, avx512::exponentials, avx512::tangents}};

// Every 257th of all f32 numbers, and the edges of the range that has an exponential.
std::vector<float> arguments() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 257)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (const float edge : {-87.3f, 88.72f, 0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()})
    for (const float to : {-1e30f, 1e30f}) x.insert(x.end(), {edge, std::nextafter(edge, to)});
  while (x.size() % 16 != 0) x.push_back(1.0f);
  return x;
}

TEST(Exp, RegistersHaveTheBitsOfOneNumberAndBothAreNearTheExponential) {
  const auto x = arguments();
  std::vector<float> of_registers(x.size()), least(x.size()), one_by_one(x.size());
  for (const auto& path : paths) {
    if (!machine_has(path.isa)) continue;
    path.run(static_cast<int>(x.size()), x.data(), of_registers.data(), least.data(), one_by_one.data());
    std::int64_t different = 0, far = 0;
    float one = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        far += !std::isnan(of_registers[i]) || !std::isnan(least[i]) || !std::isnan(one_by_one[i]);
        continue;
      }
      const auto bits = std::bit_cast<std::uint32_t>(one_by_one[i]);
      different += std::bit_cast<std::uint32_t>(of_registers[i]) != bits;
      different += x[i] < 88 && std::bit_cast<std::uint32_t>(least[i]) != bits;
      const double want = x[i] < -87.3f   ? 0.0
                          : x[i] > 88.72f ? std::numeric_limits<double>::infinity()
                                          : std::exp(static_cast<double>(x[i]));
      const bool near = want == one_by_one[i] || std::abs(one_by_one[i] - want) <= 2e-7 * want;
      if (!near) ++far, one = x[i];
    }
    EXPECT_EQ(different, 0) << name_of(path.isa);
    EXPECT_EQ(far, 0) << name_of(path.isa) << ", one of them: " << one;
  }
}

// Relative to tanh itself, also near zero. A subnormal argument may become its rounded product.
TEST(Exp, TanhOfRegistersIsNearTanh) {
  const auto x = arguments();
  std::vector<float> got(x.size());
  for (const auto& path : paths) {
    if (!machine_has(path.isa)) continue;
    path.tangents(static_cast<int>(x.size()), x.data(), got.data());
    std::int64_t far = 0;
    float one = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::tanh(static_cast<double>(x[i]));
      const bool near = std::isnan(x[i]) ? std::isnan(got[i]) : std::abs(got[i] - want) <= 1.8e-7 * std::abs(want);
      if (!near) ++far, one = x[i];
    }
    EXPECT_EQ(far, 0) << name_of(path.isa) << ", one of them: " << one;
  }
}

}  // namespace
}  // namespace trainyard::kernels
