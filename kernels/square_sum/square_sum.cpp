// Normalises digits and turns them into a double.
#include "kernels/square_sum/square_sum.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/square_sum/square_sum_args.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard::kernels {

static_assert(std::tuple_size_v<decltype(FixedPointSum::limbs)> == square_sum_limbs);

namespace {

// Every digit but the last below 2^32; the value stays.
void carry(FixedPointSum& sum) {
  for (std::size_t i = 0; i + 2 < sum.limbs.size(); ++i) {
    sum.limbs[i + 1] += sum.limbs[i] >> 32;
    sum.limbs[i] &= 0xffffffff;
  }
}

void add_on_gpu(tensor::Exec& exec, const float* x, std::int64_t n, FixedPointSum& add_into) {
  tensor::ArenaScope scope(exec.scratch());
  const auto limbs = exec.scratch().allocate(base::DType::i64, {square_sum_limbs});
  tensor::require_gpu(gpu_kernels().square_sum({x, n, limbs.ptr<std::int64_t>()}, exec.stream()), "square_sum on the GPU");
  FixedPointSum part;
  tensor::copy(exec, limbs, base::View::of(part.limbs.data(), {square_sum_limbs}));
  exec.synchronize();
  carry(part);
  for (int l = 0; l < square_sum_limbs; ++l) add_into.limbs[static_cast<std::size_t>(l)] += part.limbs[static_cast<std::size_t>(l)];
  carry(add_into);
}

}  // namespace

void square_sum(tensor::Exec& exec, base::View x, FixedPointSum& add_into) {
  TRAINYARD_ASSERT(x.dtype == base::DType::f32 && x.dense(), "square sum of {}", base::name_of(x.dtype));
  exec.run([&] {
    constexpr std::int64_t most = std::int64_t{1} << 30;   // squares between two carries: a digit grows by less than 2^32 each
    for (std::int64_t from = 0; from < x.count(); from += most) {
      const auto n = std::min(most, x.count() - from);
      if (exec.on_gpu()) {
        add_on_gpu(exec, x.ptr<float>() + from, n, add_into);
        continue;
      }
      TRAINYARD_CPU_CALL(square_sum_cpu, (x.ptr<float>() + from, n, add_into.limbs.data(), exec.threads()));
      carry(add_into);
    }
  });
  exec.synchronize();
}

double value(const FixedPointSum& sum) {
  constexpr int digits = square_sum_limbs - 1;
  if (sum.limbs[digits] != 0) return std::numeric_limits<double>::quiet_NaN();
  std::array<std::int64_t, digits> d{};
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const auto total = sum.limbs[i] + carry;
    d[i] = total & 0xffffffff;
    carry = total >> 32;
  }
  // From the top, in a fixed order: the result is within one unit in the last place, and equal for equal digits.
  double out = std::ldexp(static_cast<double>(carry), 32 * digits - 320);
  for (int i = digits - 1; i >= 0; --i) out += std::ldexp(static_cast<double>(d[static_cast<std::size_t>(i)]), 32 * i - 320);
  return out;
}

}  // namespace trainyard::kernels
