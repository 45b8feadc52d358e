// Splits long inputs so that no digit overflows, and dispatches.
#include "kernels/square_sum/square_sum.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/square_sum/square_sum_args.h"

#include <algorithm>

namespace trainyard::kernels {

static_assert(std::tuple_size_v<decltype(FixedPointSum::limbs)> == square_sum_limbs);

namespace {

// Squares between two carries: each adds less than 2^32 to a digit.
constexpr std::int64_t most = std::int64_t{1} << 30;

// Computes one row of digits for every 2^30 elements, then the sum of the rows.
void sum_on_gpu(tensor::Exec& exec, std::span<const base::ConstView> xs, std::int64_t* total) {
  std::int64_t rows = 0;
  for (const auto& x : xs) rows += (x.count() + most - 1) / most;
  tensor::ArenaScope scope(exec.scratch());
  const auto limbs = exec.scratch().allocate(base::DType::i64, {rows, square_sum_limbs});
  std::int64_t row = 0;
  for (const auto& x : xs)
    for (std::int64_t from = 0; from < x.count(); from += most)
      tensor::require_gpu(gpu_kernels().square_sum({.x = x.ptr<float>() + from,
                                                    .n = std::min(most, x.count() - from),
                                                    .limbs = limbs.row<std::int64_t>(row++)},
                                                   exec.stream()),
                          "square_sum on the GPU");
  tensor::require_gpu(
      gpu_kernels().square_sum_total({.limbs = limbs.ptr<std::int64_t>(), .rows = rows, .total = total}, exec.stream()),
      "square_sum on the GPU");
}

}  // namespace

void square_sum(tensor::Exec& exec, std::span<const base::ConstView> xs, base::View limbs) {
  for (const auto& x : xs) {
    require_type(x, base::DType::f32, "square_sum", "x");
    TRAINYARD_ASSERT(x.dense(), "square sum of {} x {} with gaps", x.rows(), x.cols());
  }
  require_type(limbs, base::DType::i64, "square_sum", "limbs");
  TRAINYARD_ASSERT(limbs.count() == square_sum_limbs, "{} limbs", limbs.count());
  auto* total = limbs.ptr<std::int64_t>();
  if (exec.on_gpu()) return sum_on_gpu(exec, xs, total);
  exec.run([&exec, xs, total] {
    std::fill_n(total, square_sum_limbs, 0);
    for (const auto& x : xs)
      for (std::int64_t from = 0; from < x.count(); from += most) {
        TRAINYARD_CPU_CALL(square_sum_cpu,
                           (x.ptr<float>() + from, std::min(most, x.count() - from), total, exec.threads()));
        carry_digits(total);
      }
  });
}

void square_sum(tensor::Exec& exec, base::ConstView x, FixedPointSum& add_into) {
  FixedPointSum part;
  const auto host = base::View::of(part.limbs.data(), {square_sum_limbs});
  if (exec.on_gpu()) {
    tensor::ArenaScope scope(exec.scratch());
    const auto device = exec.scratch().allocate(base::DType::i64, {square_sum_limbs});
    square_sum(exec, std::span(&x, 1), device);
    tensor::copy(exec, device, host);
  } else {
    square_sum(exec, std::span(&x, 1), host);
  }
  exec.synchronize();
  for (std::size_t l = 0; l < part.limbs.size(); ++l) add_into.limbs[l] += part.limbs[l];
  carry_digits(add_into.limbs.data());
}

double value(const FixedPointSum& sum) { return value_of_digits(sum.limbs.data()); }

}  // namespace trainyard::kernels
