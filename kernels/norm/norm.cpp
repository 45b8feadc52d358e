// Checks and dispatches norms.
#include "kernels/norm/norm.h"

#include "kernels/cast/cast.h"
#include "kernels/check.h"
#include "kernels/dropout/dropout_run.h"
#include "kernels/gpu_kernels.h"
#include "kernels/norm/norm_args.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels {

namespace {

// w + -0.0 is w for every w, also -0.0, and w + 0.0 is not.
double neutral_if_zero(double offset) { return offset == 0 ? -0.0 : offset; }

// What sums over no rows are.
void clear_gradients(tensor::Exec& exec, base::View dweight, base::View dbias) {
  fill(exec, dweight, 0);
  if (dbias) fill(exec, dbias, 0);
}

// x: the name of what is normalized.
void require_forward_types(const char* operation, const char* x, const NormForward& f) {
  require_working_type(operation, {{x, f.x}, {"weight", f.weight}, {"bias", f.bias}, {"y", f.y}});
  require_type(f.mean, accumulation_of(f.x.dtype), operation, "mean");
  require_type(f.rstd, accumulation_of(f.x.dtype), operation, "rstd");
}

void forward(tensor::Exec& exec, const NormForward& f, const DropoutArgs& sum = {}) {
  require_shape(f.y, f.x.rows(), f.x.cols(), "norm");
  require_shape(f.weight, 1, f.x.cols(), "norm weight");
  TRAINYARD_ASSERT(f.rstd.count() == f.x.rows(), "statistics of {} rows", f.rstd.count());
  if (f.x.count() == 0) return;
  const NormForwardArgs a{.x = mat(f.x),
                          .weight = mat(f.weight),
                          .bias = mat(f.bias),
                          .epsilon = f.epsilon,
                          .y = mat(f.y),
                          .mean = mat(f.mean),
                          .rstd = mat(f.rstd),
                          .sum = sum,
                          .threads = exec.threads(),
                          .offset = neutral_if_zero(f.offset)};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_forward, a); });
}

// One pass on a GPU. The CPU computes the sum first; it stays in the caches nearest to the threads.
void residual_forward(tensor::Exec& exec, const char* operation, const NormResidualForward& f) {
  const NormForward norm{.x = f.sum,
                         .weight = f.weight,
                         .bias = f.bias,
                         .epsilon = f.epsilon,
                         .y = f.y,
                         .mean = f.mean,
                         .rstd = f.rstd,
                         .offset = f.offset};
  require_working_type(operation, {{"residual", f.residual}, {"branch", f.branch}, {"sum", f.sum}});
  require_forward_types(operation, "sum", norm);
  if (exec.on_gpu()) return forward(exec, norm, dropout_args(exec, f.dropout, f.branch, f.residual, f.sum));
  dropout_add(exec, f.dropout, f.residual, f.branch, f.sum);
  forward(exec, norm);
}

// Gradient is NormBackward or NormBackwardRows.
template <class Gradient> NormBackwardArgs backward_args(tensor::Exec& exec, const char* operation, const Gradient& g) {
  require_working_type(operation, {{"x", g.x}, {"dy", g.dy}, {"weight", g.weight}, {"dx", g.dx}});
  require_type(g.mean, accumulation_of(g.x.dtype), operation, "mean");
  require_type(g.rstd, accumulation_of(g.x.dtype), operation, "rstd");
  require_shape(g.dy, g.x.rows(), g.x.cols(), "norm gradient");
  require_shape(g.dx, g.x.rows(), g.x.cols(), "norm gradient");
  return {.dy = mat(g.dy),
          .x = mat(g.x),
          .weight = mat(g.weight),
          .mean = mat(g.mean),
          .rstd = mat(g.rstd),
          .dx = mat(g.dx),
          .partials = {},
          .add = g.into == Into::add,
          .threads = exec.threads(),
          .offset = neutral_if_zero(g.offset)};
}

NormPartialSumArgs partial_sum_args(base::ConstView partials, std::int64_t ranks, base::View dweight,
                                    base::View dbias) {
  require_shape(dweight, 1, partials.cols(), "norm weight gradient");
  if (dbias) require_shape(dbias, 1, partials.cols(), "norm bias gradient");
  require_types(partials, accumulation_types, "norm_partial_sums", "partials");
  require_type(dweight, partials.dtype, "norm_partial_sums", "dweight");
  require_type(dbias, partials.dtype, "norm_partial_sums", "dbias");
  TRAINYARD_ASSERT(ranks > 0 && partials.rows() % (2 * ranks) == 0, "{} rows of partial sums of {} ranks",
                   partials.rows(), ranks);
  return {.partials = mat(partials), .ranks = ranks, .dweight = mat(dweight), .dbias = mat(dbias)};
}

void backward_rows(tensor::Exec& exec, const char* operation, const NormBackwardRows& g) {
  auto a = backward_args(exec, operation, g);
  require_shape(g.partials, plan::norm_partial_rows(g.x.rows()), g.x.cols(), "partial sums of a norm");
  require_type(g.partials, accumulation_of(g.x.dtype), operation, "partials");
  if (g.x.count() == 0) return;
  a.partials = mat(g.partials);
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_backward, a); });
}

void backward(tensor::Exec& exec, const char* operation, const NormBackward& g) {
  auto a = backward_args(exec, operation, g);
  require_type(g.dweight, accumulation_of(g.x.dtype), operation, "dweight");
  require_type(g.dbias, accumulation_of(g.x.dtype), operation, "dbias");
  if (g.x.count() == 0) return clear_gradients(exec, g.dweight, g.dbias);
  exec.run([&exec, a, dweight = g.dweight, dbias = g.dbias]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    const auto partials = exec.scratch().allocate(dweight.dtype, {plan::norm_partial_rows(a.x.rows), a.x.cols});
    a.partials = mat(partials);
    TRAINYARD_CALL(exec, norm_backward, a);
    const auto sum_args = partial_sum_args(partials, 1, dweight, dbias);
    TRAINYARD_CALL(exec, norm_partial_sum, sum_args);
  });
}

}  // namespace

void layer_norm_forward(tensor::Exec& exec, const NormForward& norm) {
  TRAINYARD_ASSERT(norm.bias && norm.mean, "layer norm needs a bias and means");
  require_forward_types("layer_norm_forward", "x", norm);
  forward(exec, norm);
}
void rms_norm_forward(tensor::Exec& exec, const NormForward& norm) {
  TRAINYARD_ASSERT(!norm.bias && !norm.mean, "RMS norm has neither bias nor means");
  require_forward_types("rms_norm_forward", "x", norm);
  forward(exec, norm);
}

void layer_norm_residual_forward(tensor::Exec& exec, const NormResidualForward& norm) {
  TRAINYARD_ASSERT(norm.bias && norm.mean, "layer norm needs a bias and means");
  residual_forward(exec, "layer_norm_residual_forward", norm);
}
void rms_norm_residual_forward(tensor::Exec& exec, const NormResidualForward& norm) {
  TRAINYARD_ASSERT(!norm.bias && !norm.mean, "RMS norm has neither bias nor means");
  residual_forward(exec, "rms_norm_residual_forward", norm);
}

void layer_norm_backward(tensor::Exec& exec, const NormBackward& norm) {
  TRAINYARD_ASSERT(norm.mean && norm.dbias, "layer norm needs means and a bias gradient");
  backward(exec, "layer_norm_backward", norm);
}
void rms_norm_backward(tensor::Exec& exec, const NormBackward& norm) {
  TRAINYARD_ASSERT(!norm.mean && !norm.dbias, "RMS norm has neither means nor a bias gradient");
  backward(exec, "rms_norm_backward", norm);
}

void layer_norm_backward_rows(tensor::Exec& exec, const NormBackwardRows& norm) {
  TRAINYARD_ASSERT(norm.mean, "layer norm needs means");
  backward_rows(exec, "layer_norm_backward_rows", norm);
}
void rms_norm_backward_rows(tensor::Exec& exec, const NormBackwardRows& norm) {
  TRAINYARD_ASSERT(!norm.mean, "RMS norm has no means");
  backward_rows(exec, "rms_norm_backward_rows", norm);
}

void norm_partial_sums(tensor::Exec& exec, base::ConstView partials, std::int64_t ranks, base::View dweight,
                       base::View dbias) {
  const auto a = partial_sum_args(partials, ranks, dweight, dbias);
  if (partials.rows() == 0) return clear_gradients(exec, dweight, dbias);
  exec.run([&exec, a] { TRAINYARD_CALL(exec, norm_partial_sum, a); });
}

}  // namespace trainyard::kernels
