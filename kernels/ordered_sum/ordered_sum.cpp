// Checks and dispatches the ordered reduction.
#include "kernels/ordered_sum/ordered_sum.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/ordered_sum/ordered_sum_args.h"

#include <vector>

namespace trainyard::kernels {

namespace {

OrderedSumArgs sum_args(const tensor::Exec& exec, const base::ConstView& pieces, const base::View& sum,
                        base::ReductionRound round) {
  return {
      .pieces = mat(pieces), .sum = mat(sum), .next = round == base::ReductionRound::next, .threads = exec.threads()};
}

}  // namespace

void ordered_sum(tensor::Exec& exec, base::ConstView pieces, base::View sum, base::ReductionRound round) {
  require_types(pieces, accumulation_types, "ordered_sum", "pieces");
  require_type(sum, pieces.dtype, "ordered_sum", "sum");
  TRAINYARD_ASSERT(pieces.cols() == sum.count() && pieces.rows() >= 1, "{} x {} into {}", pieces.rows(), pieces.cols(),
                   sum.count());
  const auto args = sum_args(exec, pieces, sum, round);
  exec.run([&exec, args] { TRAINYARD_CALL(exec, ordered_sum, args); });
}

void ordered_sum(tensor::Exec& exec, std::span<const void* const> pieces, base::View sum, base::ReductionRound round) {
  require_types(sum, accumulation_types, "ordered_sum", "sum");
  TRAINYARD_ASSERT(!pieces.empty(), "an ordered sum of {} pieces", pieces.size());
  const auto row = [&](const void* data) { return base::ConstView(data, sum.dtype, {1, sum.count()}, sum.device); };
  if (exec.on_gpu()) {  // one launch for each piece, with the same additions
    for (const auto* data : pieces) {
      const auto args = sum_args(exec, row(data), sum, round);
      exec.run([&exec, args] { TRAINYARD_CALL(exec, ordered_sum, args); });
      round = base::ReductionRound::next;
    }
    return;
  }
  auto args = sum_args(exec, row(pieces[0]), sum, round);
  args.pieces.rows = std::ssize(pieces);
  exec.run([&exec, args, rows = std::vector(pieces.begin(), pieces.end())]() mutable {
    args.rows = rows.data();
    TRAINYARD_CALL(exec, ordered_sum, args);
  });
}

}  // namespace trainyard::kernels
