// Checks and dispatches the sum of lanes.
#include "kernels/lane_sum/lane_sum.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/lane_sum/lane_sum_args.h"

namespace trainyard::kernels {

void lane_sum(tensor::Exec& exec, base::ConstView pieces, base::ConstView bias, std::int64_t first, base::View out) {
  require_types(pieces, accumulation_types, "lane_sum", "pieces");
  require_type_of_sums(out, pieces.dtype, "lane_sum", "out");
  require_type_of_sums(bias, pieces.dtype, "lane_sum", "bias");
  TRAINYARD_ASSERT(pieces.cols() == out.count() && pieces.rows() >= 1, "{} x {} into {}", pieces.rows(), pieces.cols(),
                   out.count());
  TRAINYARD_ASSERT(!bias || (bias.rows() == 1 && bias.count() > 0), "a bias of {} x {}", bias.rows(), bias.cols());
  TRAINYARD_ASSERT(first >= 0, "first element {}", first);
  if (out.count() == 0) return;
  const LaneSumArgs args{.pieces = mat(pieces),
                         .bias = mat(bias),
                         .out = mat(out),
                         .first = bias ? first % bias.count() : 0,
                         .threads = exec.threads()};
  exec.run([&exec, args] { TRAINYARD_CALL(exec, lane_sum, args); });
}

}  // namespace trainyard::kernels
