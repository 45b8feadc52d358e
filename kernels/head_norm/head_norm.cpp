// Checks and dispatches norms of queries and keys.
#include "kernels/head_norm/head_norm.h"

#include "kernels/cast/cast.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/head_norm/head_norm_args.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels {

namespace {

void require_head_norm(const char* operation, const HeadNorm& n, base::ConstView x) {
  require_type(n.squares, accumulation_of(x.dtype), operation, "squares");
  TRAINYARD_ASSERT(x.cols() % n.weight.count() == 0, "{}: {} columns have {} weights", operation, x.cols(),
                   n.weight.count());
  require_shape(n.squares, n.squares.rows(), x.rows(), "sums of squares");
  const auto runs = x.cols() / n.weight.count(), groups = n.squares.rows();
  TRAINYARD_ASSERT(groups == 1 || groups == runs, "{}: {} groups of {} runs of weights", operation, groups, runs);
}

}  // namespace

void head_norm_sums(tensor::Exec& exec, const HeadNormSums& s) {
  const char* operation = "head_norm_sums";
  require_working_type(operation, {{"x", s.x}, {"dy", s.dy}, {"weight", s.weight}});
  require_type(s.out, accumulation_of(s.x.dtype), operation, "out");
  require_shape(s.out, s.out.rows(), s.x.rows(), "sums of a norm");
  TRAINYARD_ASSERT(s.x.cols() % s.out.rows() == 0, "{} columns in {} slices", s.x.cols(), s.out.rows());
  if (s.dy) {
    require_shape(s.dy, s.x.rows(), s.x.cols(), "gradient of a norm");
    const auto slice = s.x.cols() / s.out.rows(), w = s.weight.count();
    TRAINYARD_ASSERT(slice % w == 0 || w == s.x.cols(), "slices of {} columns with {} weights", slice, w);
  }
  if (s.x.count() == 0) return;
  const HeadNormSumsArgs a{.x = mat(s.x),
                           .dy = mat(s.dy),
                           .weight = mat(s.weight),
                           .offset = s.offset,
                           .out = mat(s.out),
                           .threads = exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, head_norm_sums, a); });
}

void head_norm_forward(tensor::Exec& exec, const HeadNorm& n, base::ConstView x, base::View y) {
  const char* operation = "head_norm_forward";
  require_working_type(operation, {{"x", x}, {"weight", n.weight}, {"y", y}});
  require_head_norm(operation, n, x);
  require_shape(y, x.rows(), x.cols(), operation);
  if (x.count() == 0) return;
  const HeadNormForwardArgs a{.x = mat(x),
                              .weight = mat(n.weight),
                              .squares = mat(n.squares),
                              .width = static_cast<double>(n.width),
                              .epsilon = n.epsilon,
                              .offset = n.offset,
                              .y = mat(y),
                              .threads = exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, head_norm_forward, a); });
}

void head_norm_backward(tensor::Exec& exec, const HeadNormBackward& b) {
  const char* operation = "head_norm_backward";
  const auto& n = b.norm;
  require_working_type(operation, {{"x", b.x}, {"dy", b.dy}, {"weight", n.weight}, {"dx", b.dx}});
  require_head_norm(operation, n, b.x);
  require_shape(b.dy, b.x.rows(), b.x.cols(), operation);
  require_shape(b.dx, b.x.rows(), b.x.cols(), operation);
  require_type(b.dots, accumulation_of(b.x.dtype), operation, "dots");
  require_type(b.dweight, accumulation_of(b.x.dtype), operation, "dweight");
  require_shape(b.dots, n.squares.rows(), b.x.rows(), "dots of a norm");
  require_shape(b.dweight, b.dweight.rows(), n.weight.count(), "weight gradient of a norm");
  TRAINYARD_ASSERT(b.x.cols() / n.weight.count() % b.dweight.rows() == 0, "{} columns in {} slices", b.x.cols(),
                   b.dweight.rows());
  if (b.x.count() == 0) return fill(exec, b.dweight, 0);
  HeadNormBackwardArgs a{.dy = mat(b.dy),
                         .x = mat(b.x),
                         .weight = mat(n.weight),
                         .squares = mat(n.squares),
                         .dots = mat(b.dots),
                         .width = static_cast<double>(n.width),
                         .epsilon = n.epsilon,
                         .offset = n.offset,
                         .dx = mat(b.dx),
                         .partials = {},
                         .dweight = mat(b.dweight),
                         .threads = exec.threads()};
  exec.run([&exec, a, dweight = b.dweight]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    const auto blocks = (a.x.rows + plan::column_sum_rows - 1) / plan::column_sum_rows;
    a.partials = mat(exec.scratch().allocate(dweight.dtype, {dweight.rows() * blocks, dweight.cols()}));
    TRAINYARD_CALL(exec, head_norm_backward, a);
  });
}

}  // namespace trainyard::kernels
