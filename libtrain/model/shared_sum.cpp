// A product in lanes, then the edge where its partial sums are added up.
#include "libtrain/model/shared_sum.h"

#include "libtrain/model/edges.h"
#include "libtrain/model/saved.h"

namespace trainyard::model {

base::View partial_place(Step& step, std::int64_t rows, base::View out) {
  const auto accumulation = shape_of(step).accumulation();
  if (step.edges->ranks() == 1 || (out.rows() == rows && out.dtype == accumulation)) return out;
  return step.exec.scratch().allocate(accumulation, {rows, out.cols()});
}

void shared_forward(Step& step, base::View x, base::View weight, base::View bias, std::int64_t lanes, base::View out) {
  if (step.edges->ranks() == 1) return kernels::linear_forward_lanes(step.exec, x, weight, bias, lanes, out);
  tensor::ArenaScope scope(step.exec.scratch());
  const auto partial = partial_place(step, x.rows(), out);
  kernels::linear_forward_lanes(step.exec, x, weight, {}, lanes, partial);
  step.edges->add_up(partial, bias, out);
}

SharedInputGradient::SharedInputGradient(Step& step, std::span<const kernels::LinearPart> parts,
                                         const plan::Widths& widths, base::View out)
    : step_(step), scope_(step.exec.scratch()), out_(out), partial_(partial_place(step, parts.front().dy.rows(), out)) {
  kernels::linear_backward_input_lanes(step.exec, parts, widths.lanes, partial_,
                                       widths.in_lanes ? kernels::Neighbours::apart : kernels::Neighbours::together);
  if (step.edges->ranks() > 1) exchanged_ = step.edges->begin_add_up(partial_);
}

void SharedInputGradient::finish() {
  if (step_.edges->ranks() > 1) step_.edges->finish_add_up(exchanged_, partial_.count(), {}, out_);
}

}  // namespace trainyard::model
