// The iterations: three products and one element-wise pass each.
#include "kernels/newton_schulz/newton_schulz.h"

#include "kernels/check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gpu_kernels.h"
#include "kernels/square_sum/square_sum.h"

#include <algorithm>
#include <utility>

namespace trainyard::kernels {

namespace {

void run_part(tensor::Exec& exec, NewtonSchulzArgs args) {
  args.threads = exec.threads();
  exec.run([&exec, args] { TRAINYARD_CALL(exec, newton_schulz, args); });
}

}  // namespace

void newton_schulz(tensor::Exec& exec, base::View x, float scale) {
  require_type(x, base::DType::f32, "newton_schulz", "x");
  TRAINYARD_ASSERT(x.dense() && x.dims == 2, "newton_schulz: x of {} x {}{}", x.rows(), x.cols(),
                   x.dense() ? "" : " with gaps");
  if (x.count() == 0) return;
  const bool tall = x.cols() < x.rows();
  const auto side = std::min(x.rows(), x.cols());
  auto& scratch = exec.scratch();
  tensor::ArenaScope scope(scratch);
  const auto limbs = scratch.allocate(base::DType::i64, {square_sum_limbs});
  const auto gram = scratch.allocate(base::DType::f32, {side, side}),
             square = scratch.allocate(base::DType::f32, {side, side});
  auto from = x, to = scratch.allocate(base::DType::f32, {x.rows(), x.cols()});
  const base::ConstView whole = x;
  square_sum(exec, std::span(&whole, 1), limbs);
  run_part(exec,
           {.part = NewtonSchulzPart::normalise, .in = mat(x), .out = mat(x), .limbs = limbs.ptr<std::int64_t>()});
  for (int step = 0; step < newton_schulz_steps; ++step) {
    gemm(exec, {.a = from,
                .b = from,
                .trans_a = tall ? Transpose::yes : Transpose::no,
                .trans_b = tall ? Transpose::no : Transpose::yes,
                .c = gram});
    gemm(exec, {.a = gram, .b = gram, .c = square});
    run_part(exec, {.part = NewtonSchulzPart::polynomial, .in = mat(gram), .out = mat(square)});
    gemm(exec, {.a = tall ? from : square, .b = tall ? square : from, .c = to});
    std::swap(from, to);
  }
  run_part(exec, {.part = NewtonSchulzPart::scale, .in = mat(from), .out = mat(x), .scale = scale});
}

}  // namespace trainyard::kernels
