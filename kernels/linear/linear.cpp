// Linear layers, built on the shared matrix product.
#include "kernels/linear/linear.h"

#include "kernels/activation/activation.h"
#include "kernels/check.h"
#include "kernels/gemm/gemm_run.h"
#include "kernels/gpu_kernels.h"
#include "kernels/linear/column_sum.h"

namespace trainyard::kernels {

namespace {

// The bias of a product, in the type of its result y.
Mat bias_mat(const char* operation, const base::View& bias, const base::View& weight, const base::View& y) {
  require_type(bias, y.dtype, operation, "bias");
  TRAINYARD_ASSERT(!bias || (bias.rows() == 1 && bias.cols() == weight.rows()),
                   "{}: bias: expected 1 x {}, found {} x {}", operation, weight.rows(), bias.rows(), bias.cols());
  return mat(bias);
}

}  // namespace

void linear_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, base::View y) {
  constexpr ProductNames names{"linear_forward", "x", "weight", "y"};
  auto g = product_of(names, x, 0, weight, 1, y);
  g.bias = bias_mat(names.operation, bias, weight, y);
  run_gemm(exec, g, names);
}

// On a GPU, the library fuses only the tanh form.
void linear_gelu_forward(tensor::Exec& exec, Gelu form, base::View x, base::View weight, base::View bias,
                         base::View pre, base::View y) {
  constexpr ProductNames names{"linear_gelu_forward", "x", "weight", "pre"};
  auto g = product_of(names, x, 0, weight, 1, pre);
  g.bias = bias_mat(names.operation, bias, weight, pre);
  require_shape(y, pre.rows(), pre.cols(), "linear_gelu_forward: y");
  require_type(y, pre.dtype, names.operation, "y");
  const bool fused = !exec.on_gpu() || form == Gelu::tanh;
  if (fused) g.gelu = mat(y), g.gelu_form = form;
  run_gemm(exec, g, names);
  if (!fused) gelu_forward(exec, form, pre, y);
}

void linear_backward_input(tensor::Exec& exec, base::View dy, base::View weight, base::View dx) {
  constexpr ProductNames names{"linear_backward_input", "dy", "weight", "dx"};
  run_gemm(exec, product_of(names, dy, 0, weight, 0, dx), names);
}

void linear_gelu_backward_input(tensor::Exec& exec, Gelu form, base::View dy, base::View weight, base::View pre,
                                base::View dx) {
  constexpr ProductNames names{"linear_gelu_backward_input", "dy", "weight", "dx"};
  auto g = product_of(names, dy, 0, weight, 0, dx);
  require_shape(pre, dx.rows(), dx.cols(), "linear_gelu_backward_input: pre");
  require_type(pre, dx.dtype, names.operation, "pre");
  const bool fused = exec.on_gpu() && form == Gelu::tanh;
  if (fused) g.gelu_of = mat(pre);
  run_gemm(exec, g, names);
  if (!fused) gelu_backward(exec, form, pre, dx, dx);
}

void linear_backward_input_add(tensor::Exec& exec, base::View dy, base::View weight, base::View dx) {
  constexpr ProductNames names{"linear_backward_input_add", "dy", "weight", "dx"};
  auto g = product_of(names, dy, 0, weight, 0, dx);
  g.accumulate = 1;
  run_gemm(exec, g, names);
}

void linear_backward_weight(tensor::Exec& exec, base::View dy, base::View x, base::View dweight, base::View dbias) {
  constexpr ProductNames names{"linear_backward_weight", "dy", "x", "dweight"};
  auto g = product_of(names, dy, 1, x, 0, dweight);
  if (dbias) require_shape(dbias, 1, dy.cols(), "linear_backward_weight: dbias");
  require_type(dbias, accumulation_of(dy.dtype), names.operation, "dbias");
  if (exec.on_gpu()) g.sums = mat(dbias);
  run_gemm(exec, g, names);
  if (!dbias || exec.on_gpu()) return;
  exec.run([&exec, dy, dbias] {
    tensor::ArenaScope scope(exec.scratch());
    const auto blocks = (dy.rows() + plan::column_sum_rows - 1) / plan::column_sum_rows;
    ColumnSumArgs args{mat(dy), mat(dbias), mat(exec.scratch().allocate(dbias.dtype, {blocks, dy.cols()})),
                       exec.threads()};
    TRAINYARD_CPU_CALL(column_sum_cpu, (args));
  });
}

}  // namespace trainyard::kernels
