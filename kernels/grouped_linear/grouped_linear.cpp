// Checks shapes and dispatches the products of groups.
#include "kernels/grouped_linear/grouped_linear.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/grouped_linear/grouped_linear_args.h"
#include "libtrain/plan/scratch.h"

#include <algorithm>

namespace trainyard::kernels {

namespace {

GroupRanges ranges_of(const RowGroups& groups) {
  const auto& v = groups.ranges;
  TRAINYARD_ASSERT(v.dtype == base::DType::i32 && v.dims == 2 && v.cols() == 2 && v.dense(),
                   "ranges of {} x {} {}, pitch {}", v.rows(), v.cols(), base::name_of(v.dtype), v.pitch);
  return {static_cast<const std::int32_t*>(v.data), v.rows()};
}

GroupedMat grouped_mat(const GroupedView& v) {
  TRAINYARD_ASSERT(v.count >= 1, "{} views in a group of views", v.count);
  return {mat(v.first), v.stride, v.count};
}

void require_types(const base::View& a, const base::View& b, const base::View& c) {
  TRAINYARD_ASSERT(
      a.dtype == b.dtype && (c.dtype == a.dtype || (a.dtype == base::DType::bf16 && c.dtype == base::DType::f32)),
      "operands of {}, {} into {}", base::name_of(a.dtype), base::name_of(b.dtype), base::name_of(c.dtype));
}

void run_grouped(tensor::Exec& exec, GroupedLinearArgs args) {
  if (args.rows.groups == 0 || args.c.rows == 0 || args.c.cols == 0) return;
  args.threads = exec.threads();
  exec.run([&exec, args]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    args.scratch = exec.scratch().allocate_bytes(
        exec.on_gpu()
            ? plan::gpu_grouped_linear_scratch_bytes(args.c.rows, args.c.cols, args.lanes,
                                                     args.c.type == Type::f64 ? 8 : 4)
            : plan::grouped_linear_scratch_bytes(args.c.rows, args.rows.groups, args.c.cols, args.k, args.parts,
                                                 args.lanes, args.c.type == Type::bf16, args.threads));
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
  return {2 * rows_of(g.rows) * static_cast<double>(g.c.cols) * static_cast<double>(g.k), 0, 0, 0,
          g.a[0].type == Type::bf16};
}
KernelWork work_of(const GroupedWeightArgs& g) {
  return {2 * rows_of(g.rows) * static_cast<double>(g.dy.cols) * static_cast<double>(g.x.cols), 0, 0, 0,
          g.x.type == Type::bf16};
}

void grouped_linear_forward(tensor::Exec& exec, const RowGroups& groups, base::View x, const GroupedView& weight,
                            const GroupedView& bias, std::int64_t lanes, base::View y) {
  require_shape(weight.first, y.cols(), x.cols(), "weight");
  TRAINYARD_ASSERT(x.rows() == y.rows(), "{} rows from {}", y.rows(), x.rows());
  TRAINYARD_ASSERT(lanes >= 1 && x.cols() % lanes == 0, "{} lanes over {}", lanes, x.cols());
  require_types(x, weight.first, y);
  if (bias) {
    require_shape(bias.first, 1, y.cols(), "bias");
    TRAINYARD_ASSERT(bias.first.dtype == y.dtype, "a bias of {} for {}", base::name_of(bias.first.dtype),
                     base::name_of(y.dtype));
  }
  GroupedLinearArgs args;
  args.rows = ranges_of(groups);
  args.a[0] = mat(x), args.b[0] = grouped_mat(weight), args.c = mat(y), args.bias = grouped_mat(bias);
  args.trans_b = 1, args.k = x.cols(), args.lanes = lanes;
  run_grouped(exec, args);
}

void grouped_linear_backward_input(tensor::Exec& exec, const RowGroups& groups, std::span<const GroupedPart> parts,
                                   std::int64_t lanes, base::View dx) {
  TRAINYARD_ASSERT(!parts.empty() && parts.size() <= 2, "{} parts", parts.size());
  GroupedLinearArgs args;
  args.rows = ranges_of(groups);
  args.parts = static_cast<int>(parts.size()), args.c = mat(dx), args.lanes = lanes;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto& dy = parts[p].dy;
    require_shape(parts[p].weight.first, dy.cols(), dx.cols(), "weight");
    TRAINYARD_ASSERT(dy.rows() == dx.rows() && dy.dtype == parts[0].dy.dtype, "{} rows of {} from {} of {}", dx.rows(),
                     base::name_of(parts[0].dy.dtype), dy.rows(), base::name_of(dy.dtype));
    TRAINYARD_ASSERT(lanes >= 1 && dy.cols() > 0 && dy.cols() % lanes == 0, "{} lanes over {}", lanes, dy.cols());
    require_types(dy, parts[p].weight.first, dx);
    args.a[p] = mat(dy), args.b[p] = grouped_mat(parts[p].weight);
    args.k += dy.cols();
  }
  run_grouped(exec, args);
}

void grouped_linear_backward_weight(tensor::Exec& exec, const RowGroups& groups, base::View dy, base::View x,
                                    const GroupedView& dweight, const GroupedView& dbias) {
  require_shape(dweight.first, dy.cols(), x.cols(), "dweight");
  TRAINYARD_ASSERT(dy.rows() == x.rows() && dy.dtype == x.dtype && dweight.first.dtype == accumulation_of(x.dtype),
                   "{} rows of {}, {} of {} into {}", dy.rows(), base::name_of(dy.dtype), x.rows(),
                   base::name_of(x.dtype), base::name_of(dweight.first.dtype));
  if (dbias) {
    require_shape(dbias.first, 1, dy.cols(), "dbias");
    TRAINYARD_ASSERT(dbias.first.dtype == dweight.first.dtype, "dbias of {}", base::name_of(dbias.first.dtype));
  }
  GroupedWeightArgs args;
  args.rows = ranges_of(groups);
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
