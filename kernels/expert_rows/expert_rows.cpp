// Checks shapes and types and dispatches.
#include "kernels/expert_rows/expert_rows.h"

#include "kernels/check.h"
#include "kernels/expert_rows/expert_rows_args.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

ConstMat index_mat(base::ConstView v, const char* operation) {
  require_type(v, base::DType::i32, operation, "rows");
  return {.data = v.data, .rows = v.rows(), .cols = v.cols(), .pitch = v.pitch, .type = Type::f32};
}

const std::int32_t* sources_of(base::ConstView sources, base::ConstView rows, const char* operation) {
  require_type(sources, base::DType::i32, operation, "sources");
  TRAINYARD_ASSERT(sources.count() == rows.rows() && sources.dense(), "{} sources of {} rows", sources.count(),
                   rows.rows());
  return sources.count() > 0 ? sources.ptr<std::int32_t>() : nullptr;
}

// out = add + the sum of weights * y[rows] (ExpertSumArgs).
struct ExpertSum {
  base::ConstView y, rows;
  base::ConstView weights = {}, add = {};
  base::View out;
};
void sum_rows(tensor::Exec& exec, const char* operation, const ExpertSum& s) {
  require_shape(s.out, s.rows.rows(), s.y.cols(), "tokens of experts");
  if (s.weights) require_shape(s.weights, s.rows.rows(), s.rows.cols(), "weights of choices");
  if (s.add) require_shape(s.add, s.rows.rows(), s.y.cols(), "what rows are added to");
  require_type(s.weights, accumulation_of(s.y.dtype), operation, "weights");
  require_type(s.add, accumulation_of(s.y.dtype), operation, "add");
  if (s.out.count() == 0) return;
  const ExpertSumArgs a{.y = mat(s.y),
                        .rows = index_mat(s.rows, operation),
                        .weights = mat(s.weights),
                        .add = mat(s.add),
                        .out = mat(s.out),
                        .threads = exec.threads()};
  exec.run([&exec, a] { TRAINYARD_CALL(exec, expert_sum, a); });
}

}  // namespace

void expert_dispatch(tensor::Exec& exec, base::ConstView x, base::ConstView sources, std::int64_t k, base::View y) {
  TRAINYARD_ASSERT(k >= 1 && x.cols() == y.cols(), "rows of {} for tokens of {}, {} choices", y.cols(), x.cols(), k);
  require_working_type("expert_dispatch", {{"x", x}, {"y", y}});
  const ExpertDispatchArgs a{.x = mat(x),
                             .sources = sources_of(sources, y, "expert_dispatch"),
                             .top_k = k,
                             .y = mat(y),
                             .threads = exec.threads()};
  if (y.count() == 0) return;
  exec.run([&exec, a] { TRAINYARD_CALL(exec, expert_dispatch, a); });
}
void expert_dispatch_backward(tensor::Exec& exec, base::ConstView dy, base::ConstView rows, base::ConstView add,
                              base::View dx) {
  require_working_type("expert_dispatch_backward", {{"dy", dy}, {"dx", dx}});
  sum_rows(exec, "expert_dispatch_backward", {.y = dy, .rows = rows, .add = add, .out = dx});
}
void expert_combine(tensor::Exec& exec, base::ConstView y, base::ConstView rows, base::ConstView weights,
                    base::View out) {
  TRAINYARD_ASSERT(weights, "{} choices without weights", rows.count());
  require_working_type("expert_combine", {{"y", y}, {"out", out}});
  sum_rows(exec, "expert_combine", {.y = y, .rows = rows, .weights = weights, .out = out});
}
void expert_combine_backward(tensor::Exec& exec, const ExpertCombineBackward& c) {
  require_shape(c.dout, c.rows.rows(), c.y.cols(), "gradient of tokens");
  require_shape(c.dy, c.y.rows(), c.y.cols(), "gradient of rows");
  require_shape(c.weights, c.rows.rows(), c.rows.cols(), "weights of choices");
  require_shape(c.d_weights, c.rows.rows(), c.rows.cols(), "gradient of weights");
  constexpr const char* operation = "expert_combine_backward";
  require_working_type(operation, {{"y", c.y}, {"dout", c.dout}, {"dy", c.dy}});
  require_type(c.weights, accumulation_of(c.y.dtype), operation, "weights");
  require_type(c.d_weights, accumulation_of(c.y.dtype), operation, "d_weights");
  const ExpertCombineBackwardArgs a{.dout = mat(c.dout),
                                    .y = mat(c.y),
                                    .rows = index_mat(c.rows, operation),
                                    .sources = sources_of(c.sources, c.y, operation),
                                    .weights = mat(c.weights),
                                    .dy = mat(c.dy),
                                    .d_weights = mat(c.d_weights),
                                    .threads = exec.threads()};
  if (c.rows.rows() == 0 && c.y.rows() == 0) return;
  exec.run([&exec, a] { TRAINYARD_CALL(exec, expert_combine_backward, a); });
}

}  // namespace trainyard::kernels
