// Checks and dispatches dropout.
#include "kernels/dropout/dropout.h"

#include "kernels/check.h"
#include "kernels/dropout/dropout_run.h"
#include "kernels/gpu_kernels.h"
#include "libtrain/base/dropout_counter.h"

namespace trainyard::kernels {

namespace {

void run(tensor::Exec& exec, const Dropout& d, base::ConstView x, base::ConstView residual, base::View y) {
  const auto a = dropout_args(exec, d, x, residual, y);
  if (y.count() == 0) return;
  exec.run([&exec, a] { TRAINYARD_CALL(exec, dropout, a); });
}

}  // namespace

DropoutArgs dropout_args(tensor::Exec& exec, const Dropout& d, base::ConstView x, base::ConstView residual,
                         base::View y) {
  require_shape(y, x.rows(), x.cols(), "dropout");
  if (residual) require_shape(residual, x.rows(), x.cols(), "residual");
  TRAINYARD_ASSERT(d.probability >= 0 && d.probability < 1, "dropout probability {}", d.probability);
  TRAINYARD_ASSERT(d.first_row >= 0 && d.first_channel >= 0 && d.first_channel % 4 == 0,
                   "dropout from row {} and channel {}", d.first_row, d.first_channel);
  TRAINYARD_ASSERT(d.probability == 0 ||
                       (d.first_channel + x.cols() <= base::dropout_channels && d.sequence <= base::dropout_positions),
                   "dropout over {} channels and {} positions", d.first_channel + x.cols(), d.sequence);
  return {.x = mat(x),
          .residual = mat(residual),
          .y = mat(y),
          .threshold = static_cast<std::uint32_t>(d.probability * 0x1p32),
          .scale = static_cast<float>(1 / (1 - d.probability)),
          .scale64 = 1 / (1 - d.probability),
          .seed = d.seed,
          .site = d.site,
          .samples = d.samples,
          .sequence = d.sequence,
          .first_row = d.first_row,
          .first_quad = static_cast<std::uint64_t>(d.first_channel / 4),
          .active = d.probability > 0,
          .threads = exec.threads()};
}

void dropout_forward(tensor::Exec& exec, const Dropout& d, base::ConstView x, base::View y) {
  require_working_type("dropout_forward", {{"x", x}, {"y", y}});
  run(exec, d, x, {}, y);
}
void dropout_backward(tensor::Exec& exec, const Dropout& d, base::ConstView dy, base::View dx) {
  require_working_type("dropout_backward", {{"dy", dy}, {"dx", dx}});
  run(exec, d, dy, {}, dx);
}
void dropout_add(tensor::Exec& exec, const Dropout& d, base::ConstView residual, base::ConstView branch,
                 base::View out) {
  require_working_type("dropout_add", {{"residual", residual}, {"branch", branch}, {"out", out}});
  run(exec, d, branch, residual, out);
}

}  // namespace trainyard::kernels
