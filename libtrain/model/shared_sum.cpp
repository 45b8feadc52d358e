// Products in reduction lanes, then the collective that adds up their sums.
#include "libtrain/model/shared_sum.h"

#include "libtrain/model/saved.h"
#include "libtrain/model/tensor_collectives.h"

#include <vector>

namespace trainyard::model {

base::View partial_place(Step& step, const plan::Widths& widths, std::int64_t rows, base::View out) {
  const auto accumulation = shape_of(step).accumulation();
  const bool in_place = out.rows() == rows && out.dtype == accumulation && widths.partials == 1;
  if (step.collectives->ranks() == 1 || in_place) return out;
  return step.exec.scratch().allocate(accumulation, {widths.partials * rows, out.cols()});
}

void partial_products(Step& step, std::span<const kernels::LinearPart> parts, const plan::Widths& widths,
                      base::View partial, std::int64_t rows_of_all, std::int64_t first) {
  const auto neighbours = widths.in_lanes ? kernels::Neighbours::apart : kernels::Neighbours::together;
  const auto rows = parts.front().dy.rows();
  if (widths.partials == 1)
    return kernels::linear_backward_input_lanes(step.exec, parts, widths.lanes, partial.row_range(first, rows),
                                                neighbours);
  for (std::int64_t l = 0; l < widths.partials; ++l) {
    std::vector<kernels::LinearPart> lane;
    for (const auto& part : parts) {
      const auto width = part.weight.rows() / widths.partials;
      lane.push_back({part.dy.columns(l * width, width), part.weight.row_range(l * width, width)});
    }
    kernels::linear_backward_input_lanes(step.exec, lane, 1, partial.row_range(l * rows_of_all + first, rows),
                                         neighbours);
  }
}

void shared_forward(Step& step, base::View x, base::View weight, base::View bias, const plan::Widths& widths,
                    base::View out) {
  if (step.collectives->ranks() == 1)
    return kernels::linear_forward_lanes(step.exec, x, weight, bias, widths.lanes, out);
  tensor::ArenaScope scope(step.exec.scratch());
  const auto partial = partial_place(step, widths, x.rows(), out);
  const auto width = x.cols() / widths.partials;
  for (std::int64_t l = 0; l < widths.partials; ++l)
    kernels::linear_forward_lanes(step.exec, x.columns(l * width, width), weight.columns(l * width, width), {},
                                  widths.lanes / widths.partials, partial.row_range(l * x.rows(), x.rows()));
  step.collectives->add_up(partial, bias, out);
}

SharedInputGradient::SharedInputGradient(Step& step, std::span<const kernels::LinearPart> parts,
                                         const plan::Widths& widths, base::View out)
    : step_(step), scope_(step.exec.scratch()), out_(out),
      partial_(partial_place(step, widths, parts.front().dy.rows(), out)) {
  partial_products(step, parts, widths, partial_, parts.front().dy.rows(), 0);
  if (step.collectives->ranks() > 1) exchanged_ = step.collectives->begin_add_up(partial_);
}

void SharedInputGradient::finish() {
  if (step_.collectives->ranks() > 1) step_.collectives->finish_add_up(exchanged_, partial_.count(), {}, out_);
}

}  // namespace trainyard::model
