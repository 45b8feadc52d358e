// Checks and dispatches the ordered reduction.
#include "kernels/ordered_sum/ordered_sum.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/ordered_sum/ordered_sum_args.h"

#include <vector>

namespace trainyard::kernels {

void ordered_sum(tensor::Exec& exec, base::View pieces, base::View sum, base::ReductionRound round) {
  require_types(pieces, accumulation_types, "ordered_sum", "pieces");
  require_type(sum, pieces.dtype, "ordered_sum", "sum");
  TRAINYARD_ASSERT(pieces.cols() == sum.count() && pieces.rows() >= 1, "{} x {} into {}", pieces.rows(), pieces.cols(),
                   sum.count());
  OrderedSumArgs args{mat(pieces), mat(sum), nullptr, round == base::ReductionRound::next, exec.threads()};
  exec.run([&exec, args] { TRAINYARD_CALL(exec, ordered_sum, args); });
}

void ordered_sum(tensor::Exec& exec, std::span<const void* const> pieces, base::View sum, base::ReductionRound round) {
  require_types(sum, accumulation_types, "ordered_sum", "sum");
  TRAINYARD_ASSERT(!pieces.empty(), "an ordered sum of {} pieces", pieces.size());
  const auto row = [&](const void* data) {
    return mat(base::View(const_cast<void*>(data), sum.dtype, {1, sum.count()}, sum.device));
  };
  if (exec.on_gpu()) {  // one launch for each piece, with the same additions
    for (const auto* data : pieces) {
      OrderedSumArgs args{row(data), mat(sum), nullptr, round == base::ReductionRound::next, exec.threads()};
      exec.run([&exec, args] { TRAINYARD_CALL(exec, ordered_sum, args); });
      round = base::ReductionRound::next;
    }
    return;
  }
  OrderedSumArgs args{row(pieces[0]), mat(sum), nullptr, round == base::ReductionRound::next, exec.threads()};
  args.pieces.rows = static_cast<std::int64_t>(pieces.size());
  exec.run([&exec, args, rows = std::vector(pieces.begin(), pieces.end())]() mutable {
    args.rows = rows.data();
    TRAINYARD_CALL(exec, ordered_sum, args);
  });
}

}  // namespace trainyard::kernels
