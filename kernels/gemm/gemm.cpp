// Checks shapes and types and dispatches the product.
#include "kernels/gemm/gemm.h"

#include "kernels/cast/cast.h"
#include "kernels/check.h"
#include "kernels/gemm/gemm_run.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

// The sizes of b are those that `a` and the columns of c ask for.
void require_factor(const GemmArgs& args, const ConstMat& a, const ConstMat& b, std::int64_t k,
                    const ProductNames& names) {
  const auto rows = args.trans_b ? args.n : k, cols = args.trans_b ? k : args.n;
  TRAINYARD_ASSERT(b.rows == rows && b.cols == cols, "{}: {}: expected {} x {} for {} of {} x {}, found {} x {}",
                   names.operation, names.b, rows, cols, names.a, a.rows, a.cols, b.rows, b.cols);
}

void require_product(const GemmArgs& args, const ProductNames& names) {
  const auto &a = args.a, &b = args.b;
  const auto& c = args.c;
  require_factor(args, a, b, args.k, names);
  TRAINYARD_ASSERT(c.rows == args.m && c.cols == args.n,
                   "{}: {}: expected {} x {} for {} of {} x {} and {} of {} x {}, found {} x {}", names.operation,
                   names.c, args.m, args.n, names.a, a.rows, a.cols, names.b, b.rows, b.cols, c.rows, c.cols);
}

// What sums over nothing are.
void clear_sums(tensor::Exec& exec, const Mat& sums) {
  base::View view(sums.data, dtype_of(sums.type), {sums.rows, sums.cols}, exec.device());
  view.pitch = sums.pitch;
  fill(exec, view, 0);
}

}  // namespace

GemmArgs product_of(const ProductNames& names, const base::ConstView& a, int trans_a, const base::ConstView& b,
                    int trans_b, const base::View& c) {
  require_working_type(names.operation, {{names.a, a}, {names.b, b}});
  require_type_of_product(c, a.dtype, names.operation, names.c);
  GemmArgs g;
  g.a = mat(a), g.b = mat(b), g.c = mat(c);
  g.trans_a = trans_a, g.trans_b = trans_b;
  return g;
}

void gemm(tensor::Exec& exec, const Gemm& product) {
  constexpr ProductNames names{.operation = "gemm", .a = "a", .b = "b", .c = "c"};
  auto args = product_of(names, product.a, product.trans_a == Transpose::yes, product.b,
                         product.trans_b == Transpose::yes, product.c);
  args.accumulate = product.accumulate == Accumulate::yes;
  run_gemm(exec, args, names);
}

KernelWork work_of(const GemmArgs& g) {
  return {.operations = 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k),
          .m = g.m,
          .n = g.n,
          .k = g.k,
          .of_bf16 = g.a.type == Type::bf16};
}

void run_gemm(tensor::Exec& exec, GemmArgs args, const ProductNames& names) {
  args.m = args.trans_a ? args.a.cols : args.a.rows;
  args.k = args.trans_a ? args.a.rows : args.a.cols;
  args.n = args.trans_b ? args.b.rows : args.b.cols;
  require_product(args, names);
  TRAINYARD_ASSERT(
      !args.accumulate || (args.bias.empty() && args.gelu.empty() && !base::is_narrow(dtype_of(args.c.type))),
      "{}: accumulate with an epilogue, or into a narrow dtype", names.operation);
  TRAINYARD_ASSERT(args.k % args.lanes == 0 && (!exec.on_gpu() || (args.parts == 1 && args.lanes == 1)),
                   "{}: {} lanes over {}", names.operation, args.lanes, args.k);
  for (int i = 0; i + 1 < args.parts; ++i) {
    const auto& p = args.more[i];
    const auto k = args.trans_a ? p.a.rows : p.a.cols;
    require_factor(args, p.a, p.b, k, names);
    TRAINYARD_ASSERT((args.trans_a ? p.a.cols : p.a.rows) == args.m && k > 0 && k % args.lanes == 0,
                     "{}: part {} of a product of {} x {} in {} lanes", names.operation, i + 1, args.m, args.n,
                     args.lanes);
    args.k += k;
  }
  TRAINYARD_ASSERT(!args.accumulate || args.lanes == 1, "{}: accumulate over {} lanes", names.operation, args.lanes);
  if (args.m == 0 || args.n == 0) return;
  if (args.k == 0) {
    TRAINYARD_ASSERT(args.bias.empty() && args.gelu.empty() && args.gelu_of.empty(),
                     "{}: an epilogue of {} x {} sums over nothing", names.operation, args.m, args.n);
    if (!args.accumulate) clear_sums(exec, args.c);
    if (!args.sums.empty()) clear_sums(exec, args.sums);
    return;
  }
  TRAINYARD_ASSERT(exec.on_gpu() || (args.gelu_of.empty() && args.sums.empty()), "an epilogue of GPUs on the CPU");
  TRAINYARD_ASSERT(!exec.on_gpu() || args.gelu_form == Activation::gelu_tanh,
                   "an epilogue that no GPU's library fuses");
  args.threads = exec.threads();
  exec.run([&exec, args]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    args.scratch = exec.scratch().allocate_bytes(
        exec.on_gpu() ? plan::gpu_gemm_scratch_bytes
                      : plan::lane_gemm_scratch_bytes(args.m, args.n, args.k, args.parts, args.lanes,
                                                      base::is_narrow(dtype_of(args.c.type))));
    if (!args.sums.empty()) {
      const auto blocks = (args.k + plan::column_sum_rows - 1) / plan::column_sum_rows;
      args.partials = mat(
          exec.scratch().allocate(args.sums.type == Type::f64 ? base::DType::f64 : base::DType::f32, {blocks, args.m}));
    }
    args.team = team_seconds(args.threads);
    TRAINYARD_CALL(exec, gemm, args);
  });
}

}  // namespace trainyard::kernels
