// Attention: output(attention(q, k, v of the normed hidden states)).
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/rotary/rotary.h"
#include "libtrain/model/adapters.h"
#include "libtrain/model/branch.h"
#include "libtrain/model/fused_linear.h"
#include "libtrain/model/query_key_norm.h"
#include "libtrain/model/relative_bias.h"
#include "libtrain/plan/spec/widths.h"

namespace trainyard::model {

// The model says what a query sees (plan::AttentionConfig), always within its document. Queries are grouped (Ainslie et
// al. 2023). Positions are rotary where the model says so (Su et al. 2021, half-split pairs), or a bias by distance.
// Queries and keys may have norms of their own. q, k and v are column slices of one [n, (heads + 2 kv_heads) head_dim]
// tensor, made by one product. The T x T matrix never exists. Tensor-parallel ranks divide the heads. Described by
// plan::AttentionKind.
class AttentionBranch : public Branch {
 public:
  explicit AttentionBranch(const BranchSpec& spec);
  void forward(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View output) const override;
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, const OutputGradient& gradient,
                const SavedSet& tensors, base::View d_normed) const override;
  // Overwrites "qkv" with its gradient.
  void input_gradients(Step& step, const params::Lease& lease, base::View d_output, const SavedSet& tensors,
                       base::View d_normed) const override;
  void weight_gradients(Step& step, const params::Grads& grads, base::View d_output,
                        const SavedSet& tensors) const override;

 private:
  struct Heads {
    base::View q, k, v;
  };
  static Heads split(base::View qkv, const plan::Widths& widths);
  Heads seen(const SavedSet& t, const plan::Widths& widths) const;  // as attention sees them: normed and rotated
  kernels::RotaryHeads rotary(std::int64_t heads) const;
  kernels::AttentionShape geometry(const Step& step, const RelativeBias::Expanded& bias) const;
  void norm_and_rotate(Step& step, const params::Lease& lease, const SavedSet& t) const;
  void output_weight_gradient(Step& step, const params::Grads& grads, base::View d_output, const SavedSet& t) const;
  struct Inward {
    base::View d_output, place, d_qkv;
    QueryKeyNorm::Pair norm_gradients;
  };
  void backward_to_qkv(Step& step, const params::Lease& lease, const SavedSet& t, const Inward& gradients) const;
  void attend(Step& step, const Heads& heads, base::View attended, base::View logsumexp) const;
  void attend_to_cache(Step& step, const Heads& heads, base::View attended, base::View logsumexp) const;
  plan::ModelConfig model_;
  std::int64_t layer_;
  FusedLinear qkv_;
  QueryKeyNorm norm_;
  int output_weight_, output_bias_;
  DropoutSite probabilities_;
  RelativeBias relative_;
  Adapters adapters_;
};

}  // namespace trainyard::model
