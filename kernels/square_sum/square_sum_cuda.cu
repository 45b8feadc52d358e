// Exact squares into 32-bit digits. Integers are added, so neither the order of threads nor of blocks matters.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

using Limb = unsigned long long;

__global__ void clear_limbs_kernel(std::int64_t* limbs) {
  if (threadIdx.x < square_sum_limbs) limbs[threadIdx.x] = 0;
}

// x^2 = mantissa 2^exponent with a mantissa below 2^53; digit i counts 2^(32 i - 320).
__device__ void add_slowly(double square, Limb* sums) {
  const auto bits = static_cast<Limb>(__double_as_longlong(square));
  int exponent = static_cast<int>(bits >> 52) - 1075 + 320;  // squares of f32 are normal doubles, multiples of 2^-298
  Limb mantissa = (bits & ((Limb{1} << 52) - 1)) | (Limb{1} << 52);
  if (exponent < 0) mantissa >>= -exponent, exponent = 0;  // only zeros leave
  const int digit = exponent / 32, shift = exponent % 32;
  const Limb low = mantissa << shift, high = shift == 0 ? 0 : mantissa >> (64 - shift);
  atomicAdd(&sums[digit], low & 0xffffffffu);
  atomicAdd(&sums[digit + 1], low >> 32);
  if (high != 0) atomicAdd(&sums[digit + 2], high);
}

constexpr int first_common = 6, common_digits = 5;

// A square that is at least 2^-76 and below 2^32 has no bits below 2^-128: digits 6 to 10 hold it, and each thread
// keeps its own. Products by 2^32 and differences are exact. Everything else goes to digits that the block shares.
__global__ void __launch_bounds__(row_threads) square_sum_kernel(SquareSumGpuArgs a) {
  __shared__ Limb sums[square_sum_limbs];
  if (threadIdx.x < square_sum_limbs) sums[threadIdx.x] = 0;
  __syncthreads();
  Limb own[common_digits] = {};
  TRAINYARD_EACH(i, a.n) {
    const double v = a.x[i], square = v * v;
    if (square >= 0x1p-76 && square < 0x1p32) {
      double rest = square;
      for (int d = common_digits - 1; d >= 0; --d) {
        const auto digit = static_cast<Limb>(rest);
        own[d] += digit;
        rest = (rest - static_cast<double>(digit)) * 0x1p32;
      }
    } else if (!(square - square == 0)) {
      atomicAdd(&sums[square_sum_limbs - 1], Limb{1});
    } else if (square != 0) {
      add_slowly(square, sums);
    }
  }
  for (int d = 0; d < common_digits; ++d) {
    for (int lanes = 16; lanes > 0; lanes /= 2) own[d] += __shfl_xor_sync(0xffffffffu, own[d], lanes);
    if (threadIdx.x % 32 == 0 && own[d] != 0) atomicAdd(&sums[first_common + d], own[d]);
  }
  __syncthreads();
  if (threadIdx.x < square_sum_limbs && sums[threadIdx.x] != 0)
    atomicAdd(reinterpret_cast<Limb*>(a.limbs) + threadIdx.x, sums[threadIdx.x]);
}

// One warp: a lane adds up a digit's low and high halves, which cannot overflow; one lane carries.
__global__ void square_sum_total_kernel(SquareSumTotalArgs a) {
  __shared__ std::int64_t low[32], high[32];
  const int l = static_cast<int>(threadIdx.x);
  std::int64_t below = 0, above = 0;
  if (l < square_sum_limbs)
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const std::int64_t digit = a.limbs[r * square_sum_limbs + l];
      below += digit & 0xffffffff;
      above += digit >> 32;
    }
  low[l] = below;
  high[l] = above;
  __syncthreads();
  if (l != 0) return;
  constexpr int count = square_sum_limbs - 1;  // not a digit: it stays whole
  std::int64_t carry = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t sum = low[i] + (i > 0 ? high[i - 1] : 0) + carry;
    a.total[i] = i + 1 < count ? sum & 0xffffffff : sum + (high[i] << 32);
    carry = sum >> 32;
  }
  a.total[count] = low[count] + (high[count] << 32);
}

}  // namespace

const char* gpu::square_sum_total(const SquareSumTotalArgs& a, void* stream) {
  TRAINYARD_LAUNCH(square_sum_total_kernel, true, 1, 32, stream, a);
  return launch_failure();
}

const char* gpu::square_sum(const SquareSumGpuArgs& a, void* stream) {
  TRAINYARD_LAUNCH(clear_limbs_kernel, false, 1, 32, stream, a.limbs);
  TRAINYARD_LAUNCH(square_sum_kernel, true, blocks_for(a.n), row_threads, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels
