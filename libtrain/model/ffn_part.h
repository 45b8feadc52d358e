// FfnPart: the feed-forward branch of a layer: x + dropout(down(activation(up(norm(x))))), where x is the stream and the branch before.
#pragma once

#include "libtrain/model/dropout_site.h"
#include "libtrain/model/joined.h"
#include "libtrain/model/norm_part.h"

namespace trainyard::model {

// GPT-2: up, tanh GELU, down. Llama: gate and up as one product, SwiGLU (Shazeer 2020), down. Tensors: plan::Part::ffn.
class FfnPart {
 public:
  FfnPart(const plan::ModelConfig& model, Declaration& declaration, const std::string& layer);
  // x = stream + dropout(branch), norm and all, ends in the stream; `branch` is used for this branch then.
  void forward(Step& step, const params::Lease& lease, base::View stream, base::View branch, const kernels::Dropout& dropout, const SavedSet& tensors) const;
  // gradient: of the output of the branch's layer on entry, of its input on return.
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, base::View gradient, const SavedSet& tensors) const;

 private:
  void activate(Step& step, const params::Lease& lease, const SavedSet& tensors) const;
  plan::ModelConfig model_;
  NormPart norm_;
  std::vector<Joined::Slots> inner_slots_;   // up, or gate and up
  Joined inner_;
  int down_weight_, down_bias_;
  DropoutSite dropout_;
};

}  // namespace trainyard::model
