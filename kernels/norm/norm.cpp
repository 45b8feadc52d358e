// Checks and dispatches norms.
#include "kernels/norm/norm.h"

#include "kernels/check.h"
#include "kernels/dropout/dropout_run.h"
#include "kernels/gpu_kernels.h"
#include "kernels/norm/norm_args.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels {

namespace {

// x: what is normalized, under its name in the operation.
void require_forward_types(const char* operation, NamedView x, base::View weight, base::View bias, base::View y,
                           base::View mean, base::View rstd) {
  require_working_type(operation, {x, {"weight", weight}, {"bias", bias}, {"y", y}});
  require_type(mean, accumulation_of(x.view.dtype), operation, "mean");
  require_type(rstd, accumulation_of(x.view.dtype), operation, "rstd");
}

void forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, double epsilon, base::View y,
             base::View mean, base::View rstd, const DropoutArgs& sum = {}) {
  require_shape(y, x.rows(), x.cols(), "norm");
  require_shape(weight, 1, x.cols(), "norm weight");
  TRAINYARD_ASSERT(rstd.count() == x.rows(), "statistics of {} rows", rstd.count());
  NormArgs a{mat(x), mat(weight), mat(bias), mat(y), mat(mean), mat(rstd), epsilon, {}, {}, {}, 0, exec.threads(), sum};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_forward, a); });
}

NormArgs backward_args(tensor::Exec& exec, const char* operation, base::View dy, base::View x, base::View weight,
                       base::View mean, base::View rstd, base::View dx, Into into) {
  require_working_type(operation, {{"x", x}, {"dy", dy}, {"weight", weight}, {"dx", dx}});
  require_type(mean, accumulation_of(x.dtype), operation, "mean");
  require_type(rstd, accumulation_of(x.dtype), operation, "rstd");
  require_shape(dy, x.rows(), x.cols(), "norm gradient");
  require_shape(dx, x.rows(), x.cols(), "norm gradient");
  return {mat(x),         mat(weight), {}, {}, mat(mean), mat(rstd), 0, mat(dy), mat(dx), {}, into == Into::add,
          exec.threads(), {}};
}

NormPartialSumArgs partial_sum_args(base::View partials, std::int64_t ranks, base::View dweight, base::View dbias) {
  require_shape(dweight, 1, partials.cols(), "norm weight gradient");
  if (dbias) require_shape(dbias, 1, partials.cols(), "norm bias gradient");
  require_types(partials, accumulation_types, "norm_partial_sums", "partials");
  require_type(dweight, partials.dtype, "norm_partial_sums", "dweight");
  require_type(dbias, partials.dtype, "norm_partial_sums", "dbias");
  TRAINYARD_ASSERT(ranks > 0 && partials.rows() > 0 && partials.rows() % (2 * ranks) == 0,
                   "{} rows of partial sums of {} ranks", partials.rows(), ranks);
  return {mat(partials), ranks, mat(dweight), mat(dbias)};
}

void backward_rows(tensor::Exec& exec, const char* operation, base::View dy, base::View x, base::View weight,
                   base::View mean, base::View rstd, base::View dx, base::View partials, Into into) {
  auto a = backward_args(exec, operation, dy, x, weight, mean, rstd, dx, into);
  require_shape(partials, plan::norm_partial_rows(x.rows()), x.cols(), "partial sums of a norm");
  require_type(partials, accumulation_of(x.dtype), operation, "partials");
  a.partials = mat(partials);
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_backward, a); });
}

void backward(tensor::Exec& exec, const char* operation, base::View dy, base::View x, base::View weight,
              base::View mean, base::View rstd, base::View dx, base::View dweight, base::View dbias, Into into) {
  auto a = backward_args(exec, operation, dy, x, weight, mean, rstd, dx, into);
  require_type(dweight, accumulation_of(x.dtype), operation, "dweight");
  require_type(dbias, accumulation_of(x.dtype), operation, "dbias");
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
void residual_forward(tensor::Exec& exec, const char* operation, base::View residual, base::View branch,
                      const Dropout& dropout, base::View sum, base::View weight, base::View bias, double epsilon,
                      base::View y, base::View mean, base::View rstd) {
  require_working_type(operation, {{"residual", residual}, {"branch", branch}, {"sum", sum}});
  require_forward_types(operation, {"sum", sum}, weight, bias, y, mean, rstd);
  if (exec.on_gpu())
    return forward(exec, sum, weight, bias, epsilon, y, mean, rstd, dropout_args(exec, dropout, branch, residual, sum));
  dropout_add(exec, dropout, residual, branch, sum);
  forward(exec, sum, weight, bias, epsilon, y, mean, rstd);
}

}  // namespace

void layer_norm_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, double epsilon,
                        base::View y, base::View mean, base::View rstd) {
  TRAINYARD_ASSERT(bias && mean, "layer norm needs a bias and means");
  require_forward_types("layer_norm_forward", {"x", x}, weight, bias, y, mean, rstd);
  forward(exec, x, weight, bias, epsilon, y, mean, rstd);
}
void rms_norm_forward(tensor::Exec& exec, base::View x, base::View weight, double epsilon, base::View y,
                      base::View rstd) {
  require_forward_types("rms_norm_forward", {"x", x}, weight, {}, y, {}, rstd);
  forward(exec, x, weight, {}, epsilon, y, {}, rstd);
}
void layer_norm_residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                                 base::View sum, base::View weight, base::View bias, double epsilon, base::View y,
                                 base::View mean, base::View rstd) {
  TRAINYARD_ASSERT(bias && mean, "layer norm needs a bias and means");
  residual_forward(exec, "layer_norm_residual_forward", residual, branch, dropout, sum, weight, bias, epsilon, y, mean,
                   rstd);
}
void rms_norm_residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                               base::View sum, base::View weight, double epsilon, base::View y, base::View rstd) {
  residual_forward(exec, "rms_norm_residual_forward", residual, branch, dropout, sum, weight, {}, epsilon, y, {}, rstd);
}
void layer_norm_backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                         base::View rstd, base::View dx, base::View dweight, base::View dbias, Into into) {
  TRAINYARD_ASSERT(mean && dbias, "layer norm needs means and a bias gradient");
  backward(exec, "layer_norm_backward", dy, x, weight, mean, rstd, dx, dweight, dbias, into);
}
void rms_norm_backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View rstd,
                       base::View dx, base::View dweight, Into into) {
  backward(exec, "rms_norm_backward", dy, x, weight, {}, rstd, dx, dweight, {}, into);
}

void layer_norm_backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                              base::View rstd, base::View dx, base::View partials, Into into) {
  TRAINYARD_ASSERT(mean, "layer norm needs means");
  backward_rows(exec, "layer_norm_backward_rows", dy, x, weight, mean, rstd, dx, partials, into);
}
void rms_norm_backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View rstd,
                            base::View dx, base::View partials, Into into) {
  backward_rows(exec, "rms_norm_backward_rows", dy, x, weight, {}, rstd, dx, partials, into);
}
void norm_partial_sums(tensor::Exec& exec, base::View partials, std::int64_t ranks, base::View dweight,
                       base::View dbias) {
  const auto a = partial_sum_args(partials, ranks, dweight, dbias);
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_partial_sum, a); });
}

}  // namespace trainyard::kernels
