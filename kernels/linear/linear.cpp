// Linear layers, built on the shared matrix product.
#include "kernels/linear/linear.h"

#include "kernels/activation/activation.h"
#include "kernels/cast/cast.h"
#include "kernels/check.h"
#include "kernels/gemm/gemm_run.h"
#include "kernels/gpu_kernels.h"
#include "kernels/linear/column_sum.h"

namespace trainyard::kernels {

namespace {

// The bias of a product, in the type of its result y.
ConstMat bias_mat(const char* operation, const base::ConstView& bias, const base::ConstView& weight,
                  const base::ConstView& y) {
  require_type(bias, y.dtype, operation, "bias");
  TRAINYARD_ASSERT(!bias || (bias.rows() == 1 && bias.cols() == weight.rows()),
                   "{}: bias: expected 1 x {}, found {} x {}", operation, weight.rows(), bias.rows(), bias.cols());
  return mat(bias);
}

}  // namespace

void linear_forward(tensor::Exec& exec, base::ConstView x, base::ConstView weight, base::ConstView bias, base::View y) {
  constexpr ProductNames names{.operation = "linear_forward", .a = "x", .b = "weight", .c = "y"};
  auto g = product_of(names, x, 0, weight, 1, y);
  g.bias = bias_mat(names.operation, bias, weight, y);
  run_gemm(exec, g, names);
}

// Products fuse GELU, on a GPU only its tanh form.
void linear_activation_forward(tensor::Exec& exec, const LinearActivation& l) {
  constexpr ProductNames names{.operation = "linear_activation_forward", .a = "x", .b = "weight", .c = "pre"};
  auto g = product_of(names, l.x, 0, l.weight, 1, l.pre);
  g.bias = bias_mat(names.operation, l.bias, l.weight, l.pre);
  require_shape(l.y, l.pre.rows(), l.pre.cols(), "linear_activation_forward: y");
  require_type(l.y, l.pre.dtype, names.operation, "y");
  const bool fused = l.form == Activation::gelu_tanh || (l.form == Activation::gelu_erf && !exec.on_gpu());
  if (fused) g.gelu = mat(l.y), g.gelu_form = l.form;
  run_gemm(exec, g, names);
  if (!fused) activation_forward(exec, l.form, l.pre, l.y);
}

void linear_backward_input(tensor::Exec& exec, base::ConstView dy, base::ConstView weight, base::View dx) {
  constexpr ProductNames names{.operation = "linear_backward_input", .a = "dy", .b = "weight", .c = "dx"};
  run_gemm(exec, product_of(names, dy, 0, weight, 0, dx), names);
}

void linear_activation_backward_input(tensor::Exec& exec, Activation form, base::ConstView dy, base::ConstView weight,
                                      base::ConstView pre, base::View dx) {
  constexpr ProductNames names{.operation = "linear_activation_backward_input", .a = "dy", .b = "weight", .c = "dx"};
  auto g = product_of(names, dy, 0, weight, 0, dx);
  require_shape(pre, dx.rows(), dx.cols(), "linear_activation_backward_input: pre");
  require_type(pre, dx.dtype, names.operation, "pre");
  const bool fused = exec.on_gpu() && form == Activation::gelu_tanh;
  if (fused) g.gelu_of = mat(pre);
  run_gemm(exec, g, names);
  if (!fused) activation_backward(exec, form, pre, dx, dx);
}

void linear_backward_input_add(tensor::Exec& exec, base::ConstView dy, base::ConstView weight, base::View dx) {
  constexpr ProductNames names{.operation = "linear_backward_input_add", .a = "dy", .b = "weight", .c = "dx"};
  auto g = product_of(names, dy, 0, weight, 0, dx);
  g.accumulate = 1;
  run_gemm(exec, g, names);
}

void linear_backward_weight(tensor::Exec& exec, base::ConstView dy, base::ConstView x, base::View dweight,
                            base::View dbias) {
  constexpr ProductNames names{.operation = "linear_backward_weight", .a = "dy", .b = "x", .c = "dweight"};
  auto g = product_of(names, dy, 1, x, 0, dweight);
  if (dbias) require_shape(dbias, 1, dy.cols(), "linear_backward_weight: dbias");
  require_type(dbias, accumulation_of(dy.dtype), names.operation, "dbias");
  if (exec.on_gpu()) g.sums = mat(dbias);
  run_gemm(exec, g, names);
  if (!dbias || exec.on_gpu()) return;
  if (dy.rows() == 0) return fill(exec, dbias, 0);
  exec.run([&exec, dy, dbias] {
    tensor::ArenaScope scope(exec.scratch());
    const auto blocks = (dy.rows() + plan::column_sum_rows - 1) / plan::column_sum_rows;
    const ColumnSumArgs args{.x = mat(dy),
                             .sums = mat(dbias),
                             .partials = mat(exec.scratch().allocate(dbias.dtype, {blocks, dy.cols()})),
                             .threads = exec.threads()};
    TRAINYARD_CPU_CALL(column_sum_cpu, (args));
  });
}

}  // namespace trainyard::kernels
