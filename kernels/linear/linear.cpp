// Linear layers, built on the shared matrix product.
#include "kernels/linear/linear.h"

#include "kernels/activation/activation.h"
#include "kernels/check.h"
#include "kernels/gemm/gemm_run.h"
#include "kernels/gpu_kernels.h"
#include "kernels/linear/column_sum.h"

namespace trainyard::kernels {

namespace {

GemmArgs product(base::View a, int trans_a, base::View b, int trans_b, base::View c) {
  GemmArgs g;
  g.a = mat(a), g.b = mat(b), g.c = mat(c);
  g.trans_a = trans_a, g.trans_b = trans_b;
  return g;
}

}  // namespace

void linear_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, base::View y) {
  auto g = product(x, 0, weight, 1, y);
  if (bias) require_shape(bias, 1, weight.rows(), "bias");
  g.bias = mat(bias);
  run_gemm(exec, g);
}

// On a GPU, the library fuses only the tanh form.
void linear_gelu_forward(tensor::Exec& exec, Gelu form, base::View x, base::View weight, base::View bias,
                         base::View pre, base::View y) {
  if (exec.on_gpu() && form == Gelu::erf) {
    linear_forward(exec, x, weight, bias, pre);
    return gelu_forward(exec, form, pre, y);
  }
  require_shape(y, pre.rows(), pre.cols(), "y");
  auto g = product(x, 0, weight, 1, pre);
  if (bias) require_shape(bias, 1, weight.rows(), "bias");
  g.bias = mat(bias);
  g.gelu = mat(y), g.gelu_form = form;
  run_gemm(exec, g);
}

void linear_backward_input(tensor::Exec& exec, base::View dy, base::View weight, base::View dx) {
  run_gemm(exec, product(dy, 0, weight, 0, dx));
}

void linear_gelu_backward_input(tensor::Exec& exec, Gelu form, base::View dy, base::View weight, base::View pre,
                                base::View dx) {
  require_shape(pre, dx.rows(), dx.cols(), "pre");
  auto g = product(dy, 0, weight, 0, dx);
  const bool fused = exec.on_gpu() && form == Gelu::tanh;
  if (fused) g.gelu_of = mat(pre);
  run_gemm(exec, g);
  if (!fused) gelu_backward(exec, form, pre, dx, dx);
}

void linear_backward_input_add(tensor::Exec& exec, base::View dy, base::View weight, base::View dx) {
  auto g = product(dy, 0, weight, 0, dx);
  g.accumulate = 1;
  run_gemm(exec, g);
}

void linear_backward_weight(tensor::Exec& exec, base::View dy, base::View x, base::View dweight, base::View dbias) {
  if (dbias) require_shape(dbias, 1, dy.cols(), "dbias");
  auto g = product(dy, 1, x, 0, dweight);
  if (exec.on_gpu()) g.sums = mat(dbias);
  run_gemm(exec, g);
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
