// Normalises digits and turns them into a double.
#include "kernels/square_sum/square_sum.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/square_sum/square_sum_args.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

constexpr std::int64_t most = std::int64_t{1} << 30;   // squares between two carries: a digit grows by less than 2^32 each

// One row of digits for every 2^30 elements, all started before the first is waited for.
void add_on_gpu(tensor::Exec& exec, std::span<const base::View> xs, FixedPointSum& add_into) {
  std::int64_t rows = 0;
  for (const auto& x : xs) rows += (x.count() + most - 1) / most;
  tensor::ArenaScope scope(exec.scratch());
  const auto limbs = exec.scratch().allocate(base::DType::i64, {rows, square_sum_limbs});
  std::int64_t row = 0;
  for (const auto& x : xs)
    for (std::int64_t from = 0; from < x.count(); from += most)
      tensor::require_gpu(gpu_kernels().square_sum({x.ptr<float>() + from, std::min(most, x.count() - from), limbs.row<std::int64_t>(row++)}, exec.stream()), "square_sum on the GPU");
  std::vector<std::int64_t> host(static_cast<std::size_t>(limbs.count()));
  tensor::copy(exec, limbs, base::View::of(host.data(), {rows, square_sum_limbs}));
  exec.synchronize();
  for (std::int64_t r = 0; r < rows; ++r) {
    FixedPointSum part;
    std::copy_n(host.begin() + r * square_sum_limbs, square_sum_limbs, part.limbs.begin());
    carry(part);
    for (std::size_t l = 0; l < part.limbs.size(); ++l) add_into.limbs[l] += part.limbs[l];
    carry(add_into);
  }
}

}  // namespace

void square_sum(tensor::Exec& exec, base::View x, FixedPointSum& add_into) { square_sum(exec, std::span(&x, 1), add_into); }

void square_sum(tensor::Exec& exec, std::span<const base::View> xs, FixedPointSum& add_into) {
  for (const auto& x : xs) TRAINYARD_ASSERT(x.dtype == base::DType::f32 && x.dense(), "square sum of {}", base::name_of(x.dtype));
  if (exec.on_gpu()) return add_on_gpu(exec, xs, add_into);
  exec.run([&] {
    for (const auto& x : xs)
      for (std::int64_t from = 0; from < x.count(); from += most) {
        TRAINYARD_CPU_CALL(square_sum_cpu, (x.ptr<float>() + from, std::min(most, x.count() - from), add_into.limbs.data(), exec.threads()));
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
