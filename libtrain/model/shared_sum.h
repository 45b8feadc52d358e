// Products whose sums the tensor ranks share: each has a part of the inner dim, and all get the result.
#pragma once

#include "kernels/linear/linear.h"
#include "libtrain/model/block.h"
#include "libtrain/plan/widths.h"

#include <span>

namespace trainyard::model {

// out [stream rows, h] = x W^T + bias, of x [n, this rank's columns] and weight [h, those columns].
void shared_forward(Step& step, base::View x, base::View weight, base::View bias, const plan::Widths& widths,
                    base::View out);
// out [stream rows, h] = the sum of dy W over this rank's outputs of all parts, and over ranks: begun when it is made,
// there after finish(). Between them the step may work on other things, but not on `out`: ranks exchange what they
// have.
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

// A rank's sums of `rows` rows, [partials * rows, h]: `out` itself where it can hold them, else scratch of the caller's
// scope. One rank has no partial sums: its products write `out`.
base::View partial_place(Step& step, const plan::Widths& widths, std::int64_t rows, base::View out);
// The products of some of them, of `rows` rows from `first` on.
void partial_products(Step& step, std::span<const kernels::LinearPart> parts, const plan::Widths& widths,
                      base::View partial, std::int64_t rows_of_all, std::int64_t first);

}  // namespace trainyard::model
