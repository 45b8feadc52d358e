// AttentionPart: the attention branch of a layer: output(attention(q, k, v of norm(x))), to be added to x with dropout.
#pragma once

#include "kernels/attention/attention.h"
#include "libtrain/model/dropout_site.h"
#include "libtrain/model/joined.h"
#include "libtrain/model/norm_part.h"

namespace trainyard::model {

// Causal, grouped queries (Ainslie et al. 2023), rotary positions where the model has them (Su et al. 2021, half-split pairs), confined to
// the document. q, k, v are column slices of one [n, (heads + 2 kv_heads) head_dim] tensor, made by one product. T x T never exists.
// Tensors: plan::Part::attention.
class AttentionPart {
 public:
  AttentionPart(const plan::ModelConfig& model, Declaration& declaration, std::int64_t index, const std::string& layer);
  // Fills `branch`; the stream stays. Adding is left to the norm behind it.
  void forward(Step& step, const params::Lease& lease, base::View stream, base::View branch, const SavedSet& tensors) const;
  kernels::Dropout residual_dropout(const Step& step) const { return residual_.of(step); }
  // gradient: of the output of the branch's layer on entry, of its input on return.
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, base::View gradient, const SavedSet& tensors) const;

 private:
  struct Heads { base::View q, k, v; };
  Heads split(base::View qkv) const;
  kernels::AttentionShape geometry(const Step& step) const;
  void remember(Step& step, const Heads& heads, base::View mixed, base::View logsumexp) const;
  plan::ModelConfig model_;
  std::int64_t index_;          // of the layer
  NormPart norm_;
  Joined qkv_;
  int output_weight_, output_bias_;
  DropoutSite probabilities_, residual_;
};

}  // namespace trainyard::model
