// Row-parallel products: each tensor-parallel rank has a part of the inner dim, and the sum over ranks is the result.
#pragma once

#include "kernels/linear/linear.h"
#include "libtrain/model/block.h"
#include "libtrain/plan/spec/widths.h"

#include <span>

namespace trainyard::model {

// out [own rows, h] = x W^T + bias, summed over ranks. x [n, this rank's columns], weight [h, the same columns].
void shared_forward(Step& step, base::View x, base::View weight, base::View bias, const plan::Widths& widths,
                    base::View out);
// out [own rows, h] = the sum of dy W over this rank's outputs of all parts, and over ranks. The constructor begins it,
// and finish() completes it. In between the step may do other work, but must not use `out`, which may be what the ranks
// exchange.
class SharedInputGradient {
 public:
  SharedInputGradient(Step& step, std::span<const kernels::LinearPart> parts, const plan::Widths& widths,
                      base::View out);
  void finish();

 private:
  Step& step_;
  tensor::ArenaScope scope_;
  base::View out_, partial_;
  tensor::Event exchanged_;
};

// The place of a rank's partial sums of `rows` rows, [partials * rows, h]. It is `out` itself if that can hold them,
// else scratch of the caller's scope. One rank has no partial sums: its products write `out`.
base::View partial_place(Step& step, const plan::Widths& widths, std::int64_t rows, base::View out);
// Computes the partial sums of the rows of `parts`, which begin at row `first` of the `rows_of_all` rows.
void partial_products(Step& step, std::span<const kernels::LinearPart> parts, const plan::Widths& widths,
                      base::View partial, std::int64_t rows_of_all, std::int64_t first);

}  // namespace trainyard::model
