// Checks shapes and dispatches the product.
#include "kernels/gemm/gemm.h"

#include "kernels/check.h"
#include "kernels/gemm/gemm_run.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

void gemm(tensor::Exec& exec, base::View a, Transpose ta, base::View b, Transpose tb, base::View c,
          Accumulate accumulate) {
  GemmArgs args;
  args.a = mat(a), args.b = mat(b), args.c = mat(c);
  args.trans_a = ta == Transpose::yes, args.trans_b = tb == Transpose::yes;
  args.accumulate = accumulate == Accumulate::yes;
  run_gemm(exec, args);
}

KernelWork work_of(const GemmArgs& g) {
  return {2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k), g.m, g.n, g.k,
          g.a.type == Type::bf16};
}

void run_gemm(tensor::Exec& exec, GemmArgs args) {
  args.m = args.trans_a ? args.a.cols : args.a.rows;
  args.k = args.trans_a ? args.a.rows : args.a.cols;
  args.n = args.trans_b ? args.b.rows : args.b.cols;
  const auto kb = args.trans_b ? args.b.cols : args.b.rows;
  TRAINYARD_ASSERT(kb == args.k && args.c.rows == args.m && args.c.cols == args.n,
                   "product of {} x {} and {} x {} into {} x {}", args.m, args.k, kb, args.n, args.c.rows, args.c.cols);
  TRAINYARD_ASSERT(args.a.type == args.b.type &&
                       (args.c.type == args.a.type || (args.a.type == Type::bf16 && args.c.type == Type::f32)),
                   "operands of types {}, {} into {}", static_cast<int>(args.a.type), static_cast<int>(args.b.type),
                   static_cast<int>(args.c.type));
  TRAINYARD_ASSERT(!args.accumulate || (args.bias.empty() && args.gelu.empty() && args.c.type != Type::bf16),
                   "accumulate with an epilogue, or in bf16");
  TRAINYARD_ASSERT(args.k % args.lanes == 0 && (!exec.on_gpu() || (args.parts == 1 && args.lanes == 1)),
                   "{} lanes over {}", args.lanes, args.k);
  for (int i = 0; i + 1 < args.parts; ++i) {
    const auto& p = args.more[i];
    const auto k = args.trans_a ? p.a.rows : p.a.cols;
    TRAINYARD_ASSERT((args.trans_a ? p.a.cols : p.a.rows) == args.m && (args.trans_b ? p.b.cols : p.b.rows) == k &&
                         (args.trans_b ? p.b.rows : p.b.cols) == args.n && p.a.type == args.a.type &&
                         p.b.type == args.a.type && k > 0 && k % args.lanes == 0,
                     "part {} of a product of {} x {} in {} lanes", i + 1, args.m, args.n, args.lanes);
    args.k += k;
  }
  TRAINYARD_ASSERT(!args.accumulate || args.lanes == 1, "accumulate over {} lanes", args.lanes);
  if (args.m == 0 || args.n == 0) return;
  TRAINYARD_ASSERT(args.k > 0, "a product of {} x {} over nothing", args.m, args.n);
  TRAINYARD_ASSERT(exec.on_gpu() || (args.gelu_of.empty() && args.sums.empty()), "an epilogue of GPUs on the CPU");
  TRAINYARD_ASSERT(!exec.on_gpu() || args.gelu_form == Gelu::tanh, "an epilogue that no GPU's library fuses");
  args.threads = exec.threads();
  exec.run([&exec, args]() mutable {
    tensor::ArenaScope scope(exec.scratch());
    args.scratch = exec.scratch().allocate_bytes(
        exec.on_gpu()
            ? plan::gpu_gemm_scratch_bytes
            : plan::lane_gemm_scratch_bytes(args.m, args.n, args.k, args.parts, args.lanes, args.c.type == Type::bf16));
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
