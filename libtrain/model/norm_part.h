// NormPart: LayerNorm or RMSNorm, before a branch or behind its residual addition.
#pragma once

#include "kernels/dropout/dropout.h"
#include "libtrain/model/saved.h"

#include <string>

namespace trainyard::model {

// Where the gradients of a norm's parameters go: [hidden] each; bias is empty where there is none.
struct NormGradients {
  base::View weight, bias;
};

// Uses the tensors "input" (train), "mean" (LayerNorm), "rstd" and "normed" of plan::norm_tensors.
class NormPart {
 public:
  // Uses the parameters `name`.weight and, with LayerNorm, `name`.bias of the flat group.
  NormPart(const plan::ModelConfig& model, const plan::FlatGroup& flat_group, const std::string& name);
  // Copies the hidden states (`stream`) to "input" in training, and fills the statistics and "normed". Without a tensor
  // "normed" the norm overwrites the hidden states.
  void forward(Step& step, const params::Lease& lease, base::View stream, const SavedSet& tensors) const;
  // The norm of the sum stream + dropout(branch). In training the sum is afterwards in "input" alone, in evaluation in
  // the hidden states; its place is returned. Without a tensor "normed" the norm of the sum overwrites the hidden
  // states.
  base::View forward_sum(Step& step, const params::Lease& lease, base::View stream, base::View branch,
                         const kernels::Dropout& dropout, const SavedSet& tensors) const;
  // Recomputes "normed" from "input", and the statistics to the values that they have.
  void make_again(Step& step, const params::Lease& lease, const SavedSet& tensors) const;
  // gradient += the gradient of d_normed through the norm; if both are the same view, it is overwritten. Overwrites the
  // gradients of weight and bias, unless these are empty because the norm is frozen.
  void backward(Step& step, const params::Lease& lease, const NormGradients& grads, base::View d_normed,
                const SavedSet& tensors, base::View gradient) const;
  NormGradients gradients(const params::Grads& grads) const;
  // Views of the tensor "norm_gradients", where the gradients stay until weight gradients are made.
  NormGradients gradients(const SavedSet& tensors) const;

 private:
  void normalize(Step& step, const params::Lease& lease, base::View rows, base::View normed,
                 const SavedSet& tensors) const;
  void backward_rows(Step& step, const params::Lease& lease, const NormGradients& grads, base::View d_normed,
                     const SavedSet& tensors, base::View gradient) const;
  plan::Norm kind_;
  double epsilon_, offset_;
  int weight_, bias_;
};

}  // namespace trainyard::model
