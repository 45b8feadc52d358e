// The norm before or behind a branch, forward and backward.
#include "libtrain/model/norm_part.h"

#include "kernels/cast/cast.h"
#include "kernels/norm/norm.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::model {

NormPart::NormPart(const plan::ModelConfig& model, const plan::FlatGroup& flat_group, const std::string& name)
    : kind_(model.norm), epsilon_(model.norm_epsilon), offset_(model.norm_offset),
      weight_(plan::index_of(flat_group, name + ".weight")), bias_(plan::find_index(flat_group, name + ".bias")) {}

void NormPart::forward(Step& step, const params::Lease& lease, base::View stream, const SavedSet& t) const {
  if (const auto input = t.find("input")) kernels::copy(step.exec, stream, input);
  const auto normed = t.find("normed");
  normalize(step, lease, stream, normed ? normed : stream, t);
}

void NormPart::make_again(Step& step, const params::Lease& lease, const SavedSet& t) const {
  normalize(step, lease, t["input"], t["normed"], t);
}

void NormPart::normalize(Step& step, const params::Lease& lease, base::View rows, base::View normed,
                         const SavedSet& t) const {
  if (kind_ == plan::Norm::layer)
    kernels::layer_norm_forward(step.exec, {.x = rows,
                                            .weight = lease.weight(weight_),
                                            .bias = lease.weight(bias_),
                                            .epsilon = epsilon_,
                                            .y = normed,
                                            .mean = t["mean"],
                                            .rstd = t["rstd"],
                                            .offset = offset_});
  else
    kernels::rms_norm_forward(step.exec, {.x = rows,
                                          .weight = lease.weight(weight_),
                                          .epsilon = epsilon_,
                                          .y = normed,
                                          .rstd = t["rstd"],
                                          .offset = offset_});
}

base::View NormPart::forward_sum(Step& step, const params::Lease& lease, base::View stream, base::View branch,
                                 const kernels::Dropout& dropout, const SavedSet& t) const {
  const auto input = t.find("input"), sum = input ? input : stream, found = t.find("normed"),
             normed = found ? found : stream;
  if (kind_ == plan::Norm::layer)
    kernels::layer_norm_residual_forward(step.exec, {.residual = stream,
                                                     .branch = branch,
                                                     .dropout = dropout,
                                                     .weight = lease.weight(weight_),
                                                     .bias = lease.weight(bias_),
                                                     .epsilon = epsilon_,
                                                     .sum = sum,
                                                     .y = normed,
                                                     .mean = t["mean"],
                                                     .rstd = t["rstd"],
                                                     .offset = offset_});
  else
    kernels::rms_norm_residual_forward(step.exec, {.residual = stream,
                                                   .branch = branch,
                                                   .dropout = dropout,
                                                   .weight = lease.weight(weight_),
                                                   .epsilon = epsilon_,
                                                   .sum = sum,
                                                   .y = normed,
                                                   .rstd = t["rstd"],
                                                   .offset = offset_});
  return sum;
}

NormGradients NormPart::gradients(const params::Grads& grads) const {
  return {grads.gradient(weight_), bias_ < 0 ? base::View{} : grads.gradient(bias_)};
}

NormGradients NormPart::gradients(const SavedSet& t) const {
  const auto all = t["norm_gradients"];
  const auto row = [&](std::int64_t r) {
    const auto v = all.row_range(r, 1);
    return base::View(v.data, v.dtype, {v.cols()}, v.device);
  };
  return {row(0), bias_ < 0 ? base::View{} : row(1)};
}

void NormPart::backward(Step& step, const params::Lease& lease, const NormGradients& grads, base::View d_normed,
                        const SavedSet& t, base::View gradient) const {
  if (step.collectives->sequence_parallel() || !grads.weight)
    return backward_rows(step, lease, grads, d_normed, t, gradient);
  const auto into = d_normed.data == gradient.data ? kernels::Into::overwrite : kernels::Into::add;
  if (kind_ == plan::Norm::layer)
    kernels::layer_norm_backward(step.exec, {.dy = d_normed,
                                             .x = t["input"],
                                             .weight = lease.weight(weight_),
                                             .mean = t["mean"],
                                             .rstd = t["rstd"],
                                             .dx = gradient,
                                             .dweight = grads.weight,
                                             .dbias = grads.bias,
                                             .into = into,
                                             .offset = offset_});
  else
    kernels::rms_norm_backward(step.exec, {.dy = d_normed,
                                           .x = t["input"],
                                           .weight = lease.weight(weight_),
                                           .rstd = t["rstd"],
                                           .dx = gradient,
                                           .dweight = grads.weight,
                                           .into = into,
                                           .offset = offset_});
}

// With sequence parallelism: sums over the rows of all ranks, in the order of one rank that has them all. Nobody adds
// up the sums of a frozen norm.
void NormPart::backward_rows(Step& step, const params::Lease& lease, const NormGradients& grads, base::View d_normed,
                             const SavedSet& t, base::View gradient) const {
  const auto into = d_normed.data == gradient.data ? kernels::Into::overwrite : kernels::Into::add;
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope scope(workspace);
  const auto weight = grads.weight;
  const auto rows = plan::norm_partial_rows(gradient.rows()), ranks = std::int64_t{step.collectives->ranks()};
  const auto dtype = shape_of(step).accumulation();
  const auto mine = workspace.allocate(dtype, {rows, gradient.cols()}),
             all = weight ? workspace.allocate(dtype, {ranks * rows, gradient.cols()}) : base::View{};
  if (kind_ == plan::Norm::layer)
    kernels::layer_norm_backward_rows(step.exec, {.dy = d_normed,
                                                  .x = t["input"],
                                                  .weight = lease.weight(weight_),
                                                  .mean = t["mean"],
                                                  .rstd = t["rstd"],
                                                  .dx = gradient,
                                                  .partials = mine,
                                                  .into = into,
                                                  .offset = offset_});
  else
    kernels::rms_norm_backward_rows(step.exec, {.dy = d_normed,
                                                .x = t["input"],
                                                .weight = lease.weight(weight_),
                                                .rstd = t["rstd"],
                                                .dx = gradient,
                                                .partials = mine,
                                                .into = into,
                                                .offset = offset_});
  if (!weight) return;
  step.collectives->gather(mine, all);
  kernels::norm_partial_sums(step.exec, all, ranks, weight, grads.bias);
}

}  // namespace trainyard::model
