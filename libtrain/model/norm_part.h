// NormPart: LayerNorm or RMSNorm, before a branch or behind its sum with the stream.
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
  // Of the parameters `name`.weight and, with layer norm, `name`.bias of the flat group.
  NormPart(const plan::ModelConfig& model, const plan::FlatGroup& flat_group, const std::string& name);
  // Copies the residual stream to "input" in training, and fills the statistics and "normed". Without a tensor "normed"
  // the stream gets the norm of itself.
  void forward(Step& step, const params::Lease& lease, base::View stream, const SavedSet& tensors) const;
  // The same of stream + dropout(branch). In training that sum lies in "input" alone afterwards, in evaluation in the
  // residual stream; the place is returned. Without a tensor "normed" the stream gets the norm of the sum.
  base::View forward_sum(Step& step, const params::Lease& lease, base::View stream, base::View branch,
                         const kernels::Dropout& dropout, const SavedSet& tensors) const;
  // Fills "normed" again from "input", and the statistics with what they are.
  void make_again(Step& step, const params::Lease& lease, const SavedSet& tensors) const;
  // gradient += the gradient through the norm of d_normed; where both are the same view, it is overwritten. The
  // gradients of weight and bias are overwritten.
  void backward(Step& step, const params::Lease& lease, const NormGradients& grads, base::View d_normed,
                const SavedSet& tensors, base::View gradient) const;
  NormGradients gradients(const params::Grads& grads) const;
  // In the tensor "norm_gradients", until weight gradients are made.
  NormGradients gradients(const SavedSet& tensors) const;

 private:
  void normalize(Step& step, const params::Lease& lease, base::View rows, base::View normed,
                 const SavedSet& tensors) const;
  void backward_rows(Step& step, const params::Lease& lease, const NormGradients& grads, base::View d_normed,
                     const SavedSet& tensors, base::View gradient) const;
  plan::Norm kind_;
  double epsilon_;
  int weight_, bias_;
};

}  // namespace trainyard::model
