// Checks and dispatches norms.
#include "kernels/norm/norm.h"

#include "kernels/check.h"
#include "kernels/dropout/dropout_run.h"
#include "kernels/gpu_kernels.h"
#include "kernels/norm/norm_args.h"
#include "libtrain/plan/scratch.h"

namespace trainyard::kernels {

namespace {

void forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, double epsilon, base::View y,
             base::View mean, base::View rstd, const DropoutArgs& sum = {}) {
  require_shape(y, x.rows(), x.cols(), "norm");
  require_shape(weight, 1, x.cols(), "norm weight");
  TRAINYARD_ASSERT(rstd.count() == x.rows() && rstd.dtype == accumulation_of(x.dtype), "statistics of {} rows",
                   rstd.count());
  NormArgs a{mat(x), mat(weight), mat(bias), mat(y), mat(mean), mat(rstd), epsilon, {}, {}, {}, 0, exec.threads(), sum};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_forward, a); });
}

NormArgs backward_args(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                       base::View rstd, base::View dx, Into into) {
  require_shape(dy, x.rows(), x.cols(), "norm gradient");
  require_shape(dx, x.rows(), x.cols(), "norm gradient");
  return {mat(x),         mat(weight), {}, {}, mat(mean), mat(rstd), 0, mat(dy), mat(dx), {}, into == Into::add,
          exec.threads(), {}};
}

NormPartialSumArgs partial_sum_args(base::View partials, std::int64_t ranks, base::View dweight, base::View dbias) {
  require_shape(dweight, 1, partials.cols(), "norm weight gradient");
  if (dbias) require_shape(dbias, 1, partials.cols(), "norm bias gradient");
  TRAINYARD_ASSERT(
      ranks > 0 && partials.rows() > 0 && partials.rows() % (2 * ranks) == 0 && partials.dtype == dweight.dtype,
      "{} rows of partial sums of {} ranks", partials.rows(), ranks);
  return {mat(partials), ranks, mat(dweight), mat(dbias)};
}

void backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean, base::View rstd,
                   base::View dx, base::View partials, Into into) {
  auto a = backward_args(exec, dy, x, weight, mean, rstd, dx, into);
  require_shape(partials, plan::norm_partial_rows(x.rows()), x.cols(), "partial sums of a norm");
  TRAINYARD_ASSERT(partials.dtype == accumulation_of(x.dtype), "partial sums of a norm in {}",
                   base::name_of(partials.dtype));
  a.partials = mat(partials);
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_backward, a); });
}

void backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean, base::View rstd,
              base::View dx, base::View dweight, base::View dbias, Into into) {
  auto a = backward_args(exec, dy, x, weight, mean, rstd, dx, into);
  exec.run([&exec, a, dweight, dbias]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    const auto partials = exec.scratch().allocate(dweight.dtype, {plan::norm_partial_rows(a.x.rows), a.x.cols});
    a.partials = mat(partials);
    TRAINYARD_CALL(exec, norm_backward, a);
    const auto sum_args = partial_sum_args(partials, 1, dweight, dbias);
    TRAINYARD_CALL(exec, norm_partial_sum, sum_args);
  });
}

// One pass on a GPU. The CPU computes the sum first; it stays in the caches nearest to the threads.
void residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                      base::View sum, base::View weight, base::View bias, double epsilon, base::View y, base::View mean,
                      base::View rstd) {
  if (exec.on_gpu())
    return forward(exec, sum, weight, bias, epsilon, y, mean, rstd, dropout_args(exec, dropout, branch, residual, sum));
  dropout_add(exec, dropout, residual, branch, sum);
  forward(exec, sum, weight, bias, epsilon, y, mean, rstd);
}

}  // namespace

void layer_norm_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, double epsilon,
                        base::View y, base::View mean, base::View rstd) {
  TRAINYARD_ASSERT(bias && mean, "layer norm needs a bias and means");
  forward(exec, x, weight, bias, epsilon, y, mean, rstd);
}
void rms_norm_forward(tensor::Exec& exec, base::View x, base::View weight, double epsilon, base::View y,
                      base::View rstd) {
  forward(exec, x, weight, {}, epsilon, y, {}, rstd);
}
void layer_norm_residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                                 base::View sum, base::View weight, base::View bias, double epsilon, base::View y,
                                 base::View mean, base::View rstd) {
  TRAINYARD_ASSERT(bias && mean, "layer norm needs a bias and means");
  residual_forward(exec, residual, branch, dropout, sum, weight, bias, epsilon, y, mean, rstd);
}
void rms_norm_residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                               base::View sum, base::View weight, double epsilon, base::View y, base::View rstd) {
  residual_forward(exec, residual, branch, dropout, sum, weight, {}, epsilon, y, {}, rstd);
}
void layer_norm_backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                         base::View rstd, base::View dx, base::View dweight, base::View dbias, Into into) {
  TRAINYARD_ASSERT(mean && dbias, "layer norm needs means and a bias gradient");
  backward(exec, dy, x, weight, mean, rstd, dx, dweight, dbias, into);
}
void rms_norm_backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View rstd,
                       base::View dx, base::View dweight, Into into) {
  backward(exec, dy, x, weight, {}, rstd, dx, dweight, {}, into);
}

void layer_norm_backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                              base::View rstd, base::View dx, base::View partials, Into into) {
  TRAINYARD_ASSERT(mean, "layer norm needs means");
  backward_rows(exec, dy, x, weight, mean, rstd, dx, partials, into);
}
void rms_norm_backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View rstd,
                            base::View dx, base::View partials, Into into) {
  backward_rows(exec, dy, x, weight, {}, rstd, dx, partials, into);
}
void norm_partial_sums(tensor::Exec& exec, base::View partials, std::int64_t ranks, base::View dweight,
                       base::View dbias) {
  const auto a = partial_sum_args(partials, ranks, dweight, dbias);
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_partial_sum, a); });
}

}  // namespace trainyard::kernels
