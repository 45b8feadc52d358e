// Checks shapes and types and dispatches.
#include "kernels/expert_rows/expert_rows.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/expert_rows/expert_rows_args.h"

namespace trainyard::kernels {

namespace {

Mat index_mat(base::View v, const char* operation) {
  require_type(v, base::DType::i32, operation, "rows");
  return {v.data, v.rows(), v.cols(), v.pitch, Type::f32};
}

const std::int32_t* sources_of(base::View sources, base::View rows, const char* operation) {
  require_type(sources, base::DType::i32, operation, "sources");
  TRAINYARD_ASSERT(sources.count() == rows.rows() && sources.dense(), "{} sources of {} rows", sources.count(),
                   rows.rows());
  return sources.count() > 0 ? sources.ptr<std::int32_t>() : nullptr;
}

void sum_rows(tensor::Exec& exec, const char* operation, base::View y, base::View rows, base::View weights,
              base::View add, base::View out) {
  require_shape(out, rows.rows(), y.cols(), "tokens of experts");
  if (weights) require_shape(weights, rows.rows(), rows.cols(), "weights of choices");
  if (add) require_shape(add, rows.rows(), y.cols(), "what rows are added to");
  require_type(weights, accumulation_of(y.dtype), operation, "weights");
  require_type(add, accumulation_of(y.dtype), operation, "add");
  const ExpertSumArgs a{mat(y), mat(weights), mat(add), mat(out), index_mat(rows, operation), exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, expert_sum, a); });
}

}  // namespace

void expert_dispatch(tensor::Exec& exec, base::View x, base::View sources, std::int64_t k, base::View y) {
  TRAINYARD_ASSERT(k >= 1 && x.cols() == y.cols(), "rows of {} for tokens of {}, {} choices", y.cols(), x.cols(), k);
  require_working_type("expert_dispatch", {{"x", x}, {"y", y}});
  const ExpertDispatchArgs a{mat(x), mat(y), sources_of(sources, y, "expert_dispatch"), k, exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, expert_dispatch, a); });
}

void expert_dispatch_backward(tensor::Exec& exec, base::View dy, base::View rows, base::View add, base::View dx) {
  require_working_type("expert_dispatch_backward", {{"dy", dy}, {"dx", dx}});
  sum_rows(exec, "expert_dispatch_backward", dy, rows, {}, add, dx);
}

void expert_combine(tensor::Exec& exec, base::View y, base::View rows, base::View weights, base::View out) {
  TRAINYARD_ASSERT(weights, "{} choices without weights", rows.count());
  require_working_type("expert_combine", {{"y", y}, {"out", out}});
  sum_rows(exec, "expert_combine", y, rows, weights, {}, out);
}

void expert_combine_backward(tensor::Exec& exec, base::View dout, base::View y, base::View rows, base::View sources,
                             base::View weights, base::View dy, base::View d_weights) {
  require_shape(dout, rows.rows(), y.cols(), "gradient of tokens");
  require_shape(dy, y.rows(), y.cols(), "gradient of rows");
  require_shape(weights, rows.rows(), rows.cols(), "weights of choices");
  require_shape(d_weights, rows.rows(), rows.cols(), "gradient of weights");
  constexpr const char* operation = "expert_combine_backward";
  require_working_type(operation, {{"y", y}, {"dout", dout}, {"dy", dy}});
  require_type(weights, accumulation_of(y.dtype), operation, "weights");
  require_type(d_weights, accumulation_of(y.dtype), operation, "d_weights");
  const ExpertCombineBackwardArgs a{mat(dout),
                                    mat(y),
                                    mat(dy),
                                    mat(weights),
                                    mat(d_weights),
                                    index_mat(rows, operation),
                                    sources_of(sources, y, operation),
                                    exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, expert_combine_backward, a); });
}

}  // namespace trainyard::kernels
