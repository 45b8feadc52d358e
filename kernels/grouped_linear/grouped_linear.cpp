// Checks shapes and types and dispatches the products of groups.
#include "kernels/grouped_linear/grouped_linear.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/grouped_linear/grouped_linear_args.h"
#include "libtrain/plan/blocks/scratch.h"

#include <algorithm>

namespace trainyard::kernels {

namespace {

GroupRanges ranges_of(const RowGroups& groups, const char* operation) {
  const auto& v = groups.ranges;
  require_type(v, base::DType::i32, operation, "groups.ranges");
  TRAINYARD_ASSERT(v.dims == 2 && v.cols() == 2 && v.dense(), "ranges of {} x {}, pitch {}", v.rows(), v.cols(),
                   v.pitch);
  return {.ranges = v.ptr<std::int32_t>(), .groups = v.rows()};
}

template <class Memory> GroupedMatOf<Memory> grouped_mat(const GroupedViewOf<base::ViewOf<Memory>>& v) {
  TRAINYARD_ASSERT(v.count >= 1, "{} views in a group of views", v.count);
  return {.first = mat(v.first), .stride = v.stride, .count = v.count};
}

void run_grouped(tensor::Exec& exec, GroupedLinearArgs args) {
  if (args.rows.groups == 0 || args.c.rows == 0 || args.c.cols == 0) return;
  args.threads = exec.threads();
  exec.run([&exec, args]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    args.scratch = exec.scratch().allocate_bytes(
        exec.on_gpu() ? plan::gpu_grouped_linear_scratch_bytes(args.c.rows, args.c.cols, args.lanes,
                                                               args.c.type == Type::f64 ? 8 : 4)
                      : plan::grouped_linear_scratch_bytes({.rows = args.c.rows,
                                                            .groups = args.rows.groups,
                                                            .n = args.c.cols,
                                                            .k = args.k,
                                                            .parts = args.parts,
                                                            .lanes = args.lanes,
                                                            .narrow_result = base::is_narrow(dtype_of(args.c.type))},
                                                           args.threads));
    args.team = team_seconds(args.threads);
    TRAINYARD_CALL(exec, grouped_linear, args);
  });
}

double rows_of(const GroupRanges& r) {
  double rows = 0;
  for (std::int64_t g = 0; g < r.groups; ++g) rows += std::max(r.ranges[2 * g + 1], 0);
  return rows;
}

}  // namespace

// Groups differ from call to call, so their operations are counted but no shape is recorded.
KernelWork work_of(const GroupedLinearArgs& g) {
  return {.operations = 2 * rows_of(g.rows) * static_cast<double>(g.c.cols) * static_cast<double>(g.k),
          .of_bf16 = g.a[0].type == Type::bf16};
}
KernelWork work_of(const GroupedWeightArgs& g) {
  return {.operations = 2 * rows_of(g.rows) * static_cast<double>(g.dy.cols) * static_cast<double>(g.x.cols),
          .of_bf16 = g.x.type == Type::bf16};
}

void grouped_linear_forward(tensor::Exec& exec, const GroupedLinear& l) {
  require_shape(l.weight.first, l.y.cols(), l.x.cols(), "weight");
  TRAINYARD_ASSERT(l.x.rows() == l.y.rows(), "{} rows from {}", l.y.rows(), l.x.rows());
  TRAINYARD_ASSERT(l.lanes >= 1 && l.x.cols() % l.lanes == 0, "{} lanes over {}", l.lanes, l.x.cols());
  constexpr const char* operation = "grouped_linear_forward";
  require_working_type(operation, {{"x", l.x}, {"weight", l.weight.first}});
  require_type_of_product(l.y, l.x.dtype, operation, "y");
  if (l.bias) require_shape(l.bias.first, 1, l.y.cols(), "bias");
  require_type(l.bias.first, l.y.dtype, operation, "bias");
  GroupedLinearArgs args;
  args.rows = ranges_of(l.groups, operation);
  args.a[0] = mat(l.x), args.b[0] = grouped_mat(l.weight), args.c = mat(l.y), args.bias = grouped_mat(l.bias);
  args.trans_b = 1, args.k = l.x.cols(), args.lanes = l.lanes;
  run_grouped(exec, args);
}

void grouped_linear_backward_input(tensor::Exec& exec, const RowGroups& groups, std::span<const GroupedPart> parts,
                                   std::int64_t lanes, base::View dx) {
  TRAINYARD_ASSERT(!parts.empty() && parts.size() <= 2, "{} parts", parts.size());
  constexpr const char* operation = "grouped_linear_backward_input";
  GroupedLinearArgs args;
  args.rows = ranges_of(groups, operation);
  args.parts = static_cast<int>(parts.size()), args.lanes = lanes;
  for (int p = 0; p < args.parts; ++p) {
    const auto& [dy, weight] = base::at(parts, p);
    require_shape(weight.first, dy.cols(), dx.cols(), "weight");
    require_working_type(operation, {{"dy", parts[0].dy}, {"dy", dy}, {"weight", weight.first}});
    require_type_of_product(dx, dy.dtype, operation, "dx");
    TRAINYARD_ASSERT(dy.rows() == dx.rows(), "{} rows from {}", dx.rows(), dy.rows());
    TRAINYARD_ASSERT(lanes >= 1 && dy.cols() > 0 && dy.cols() % lanes == 0, "{} lanes over {}", lanes, dy.cols());
    args.a[p] = mat(dy), args.b[p] = grouped_mat(weight);
    args.k += dy.cols();
  }
  args.c = mat(dx);
  run_grouped(exec, args);
}

void grouped_linear_backward_weight(tensor::Exec& exec, const RowGroups& groups, base::ConstView dy, base::ConstView x,
                                    const GroupedView& dweight, const GroupedView& dbias) {
  require_shape(dweight.first, dy.cols(), x.cols(), "dweight");
  TRAINYARD_ASSERT(dy.rows() == x.rows(), "{} rows of dy for {} of x", dy.rows(), x.rows());
  if (dbias) require_shape(dbias.first, 1, dy.cols(), "dbias");
  constexpr const char* operation = "grouped_linear_backward_weight";
  require_working_type(operation, {{"dy", dy}, {"x", x}});
  require_type(dweight.first, accumulation_of(x.dtype), operation, "dweight");
  require_type(dbias.first, accumulation_of(x.dtype), operation, "dbias");
  GroupedWeightArgs args;
  args.rows = ranges_of(groups, operation);
  args.dy = mat(dy), args.x = mat(x), args.dweight = grouped_mat(dweight), args.dbias = grouped_mat(dbias);
  if (args.rows.groups == 0 || dy.cols() == 0 || x.cols() == 0) return;
  args.threads = exec.threads();
  exec.run([&exec, args]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    args.scratch =
        exec.scratch().allocate_bytes(exec.on_gpu() ? 0
                                                    : plan::grouped_linear_weight_scratch_bytes(
                                                          args.dy.rows, args.dy.cols, args.x.cols, args.threads));
    args.team = team_seconds(args.threads);
    TRAINYARD_CALL(exec, grouped_weight, args);
  });
}

}  // namespace trainyard::kernels
