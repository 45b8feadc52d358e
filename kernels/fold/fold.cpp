// Checks and dispatches the fold.
#include "kernels/fold/fold.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/fold/fold_args.h"

namespace trainyard::kernels {

void fold(tensor::Exec& exec, base::View pieces, base::View sum, base::FoldRound round) {
  TRAINYARD_ASSERT(pieces.dtype == sum.dtype && pieces.dtype != base::DType::bf16, "fold of {} into {}",
                   base::name_of(pieces.dtype), base::name_of(sum.dtype));
  TRAINYARD_ASSERT(pieces.cols() == sum.count() && pieces.rows() >= 1, "{} x {} into {}", pieces.rows(), pieces.cols(),
                   sum.count());
  FoldArgs args{mat(pieces), mat(sum), round == base::FoldRound::next, exec.threads()};
  exec.run([&exec, args] { TRAINYARD_CALL(exec, fold, args); });
}

}  // namespace trainyard::kernels
