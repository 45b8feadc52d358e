// Cross-attention: output(attention(q of the normed hidden states; k, v of the encoder's output)).
#pragma once

#include "kernels/attention/attention_shape.h"
#include "libtrain/model/branch.h"
#include "libtrain/model/fused_linear.h"

namespace trainyard::model {

// A token sees the places of the source that belong to it (MicroBatch::source_start, source_end). Queries are grouped
// as in attention. k and v are column slices of one [source rows, 2 kv_heads head_dim] tensor. backward adds the
// gradient of the encoder's output to Step::memory_gradient. Tensor-parallel ranks divide the heads. Described by
// plan::CrossAttentionKind. With caches (Step::past) the first pass of a text keeps keys and values of its source, and
// later ones attend to these.
class CrossAttentionBranch : public Branch {
 public:
  explicit CrossAttentionBranch(const BranchSpec& spec);
  void forward(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View output) const override;
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, const OutputGradient& gradient,
                const SavedSet& tensors, base::View d_normed) const override;

 private:
  struct Heads {
    base::View k, v;
  };
  static Heads split(base::View kv);
  kernels::AttentionShape geometry(const Step& step) const;
  double scale() const;
  void keep(Step& step, base::View kv) const;
  void attend_to_cache(Step& step, const SavedSet& t) const;
  plan::ModelConfig model_;
  std::int64_t layer_;
  FusedLinear queries_, memory_;
  int output_weight_, output_bias_;
  DropoutSite probabilities_;
};

}  // namespace trainyard::model
