// Linear layers on the shared product.
#include "kernels/linear/linear.h"

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

void linear_gelu_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, base::View pre, base::View y) {
  require_shape(y, pre.rows(), pre.cols(), "y");
  auto g = product(x, 0, weight, 1, pre);
  if (bias) require_shape(bias, 1, weight.rows(), "bias");
  g.bias = mat(bias);
  g.gelu = mat(y);
  run_gemm(exec, g);
}

void linear_backward_input(tensor::Exec& exec, base::View dy, base::View weight, base::View dx) {
  run_gemm(exec, product(dy, 0, weight, 0, dx));
}

void linear_backward_input_add(tensor::Exec& exec, base::View dy, base::View weight, base::View dx) {
  auto g = product(dy, 0, weight, 0, dx);
  g.accumulate = 1;
  run_gemm(exec, g);
}

void linear_backward_weight(tensor::Exec& exec, base::View dy, base::View x, base::View dweight, base::View dbias) {
  run_gemm(exec, product(dy, 1, x, 0, dweight));
  if (!dbias) return;
  require_shape(dbias, 1, dy.cols(), "dbias");
  exec.run([&exec, dy, dbias] {
    tensor::ArenaScope scope(exec.scratch());
    const auto blocks = (dy.rows() + base::column_sum_rows - 1) / base::column_sum_rows;
    ColumnSumArgs args{mat(dy), mat(dbias), mat(exec.scratch().allocate(dbias.dtype, {blocks, dy.cols()})), exec.threads()};
    TRAINYARD_CALL(exec, column_sum, args);
  });
}

}  // namespace trainyard::kernels
