// Tests the ceilings' kernels: copies and fills are right for every instruction set, team and odd size, and
// multiply-adds are counted.
#include "kernels/peak/peak.h"
#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard {
namespace peak_test {

const kernels::Isa isas[] = {kernels::Isa::baseline, kernels::Isa::avx2, kernels::Isa::avx512};

TEST(Peak, StreamsCopyAndFillEveryByte) {
  for (const auto isa : isas) {
    if (isa > kernels::best_isa()) continue;
    kernels::set_isa(isa);
    for (const int threads : {1, 3})
      for (const std::int64_t n : {1, 63, 4096, 20001})
        for (const std::int64_t offset : {0, 5}) {
          const auto exec = tensor::Exec::caller(nullptr, threads);
          const auto size = static_cast<std::size_t>(n + offset + 1);
          std::vector<unsigned char> from(size), to(size, 7);
          for (std::size_t i = 0; i < size; ++i) from[i] = static_cast<unsigned char>(i * 31 + 1);
          kernels::stream_copy(*exec, base::View(from.data() + offset, base::DType::u8, {n}),
                               base::View(to.data() + offset, base::DType::u8, {n}));
          for (std::int64_t i = 0; i < n + offset + 1; ++i) {
            const auto k = static_cast<std::size_t>(i);
            ASSERT_EQ(to[k], i >= offset && i < n + offset ? from[k] : 7) << i << " of " << n;
          }
          kernels::stream_fill(*exec, base::View(to.data() + offset, base::DType::u8, {n}), 0xa5);
          for (std::int64_t i = 0; i < n + offset + 1; ++i)
            ASSERT_EQ(to[static_cast<std::size_t>(i)], i >= offset && i < n + offset ? 0xa5 : 7) << i << " of " << n;
        }
  }
  kernels::set_isa(kernels::best_isa());
}

// By pairs a lane has two multiply-adds. By tiles a round has four tiles of 16 x 16 sums of 32 steps.
TEST(Peak, MultiplyAddsOfBf16AreCounted) {
  const auto one = tensor::Exec::caller(nullptr, 1), three = tensor::Exec::caller(nullptr, 3);
  for (const auto isa : {kernels::Isa::baseline, kernels::Isa::avx512, kernels::Isa::avx512bf16, kernels::Isa::amx,
                         kernels::Isa::emulated_bf16, kernels::Isa::emulated_amx}) {
    if (!kernels::machine_has(isa)) continue;
    kernels::set_isa(isa);
    const bool pairs = isa == kernels::Isa::avx512bf16 || isa == kernels::Isa::emulated_bf16;
    const bool tiles = isa == kernels::Isa::amx || isa == kernels::Isa::emulated_amx;
    EXPECT_EQ(kernels::bf16_multiply_adds(*one, 10),
              tiles ? 10 * 4 * 16 * 16 * 32 * 2 : (pairs ? 2 : 1) * kernels::multiply_adds(*one, 10));
    EXPECT_EQ(kernels::bf16_multiply_adds(*three, 20), 6 * kernels::bf16_multiply_adds(*one, 10));
  }
  kernels::set_isa(kernels::best_isa());
}

TEST(Peak, MultiplyAddsAreCounted) {
  const auto one = tensor::Exec::caller(nullptr, 1), three = tensor::Exec::caller(nullptr, 3);
  const auto flops = kernels::multiply_adds(*one, 10);
  EXPECT_GT(flops, 0);
  EXPECT_EQ(flops % (2 * 10), 0);
  EXPECT_EQ(kernels::multiply_adds(*three, 20), 6 * flops);
}

}  // namespace peak_test
}  // namespace trainyard
