// PostNormLayer: a norm behind each branch and its residual addition: norm(x + dropout(branch(x))), branch after branch
// (Vaswani et al. 2017, "Attention is all you need", section 3.1; Devlin et al. 2019, "BERT").
#pragma once

#include "libtrain/model/sublayer.h"

#include <string>
#include <vector>

namespace trainyard::model {

// Leases its flat group once in forward and once in backward, and commits its gradients once, at the end of backward.
// Described by plan::LayerKind. The norm that reads a sum also adds it up: one pass over memory for the two. A norm's
// output is the hidden states, and also the tensor "normed" of the next branch. The last norm's output is the hidden
// states alone.
class PostNormLayer : public Block {
 public:
  PostNormLayer(const plan::ModelConfig& model, std::string name, LayerGroups flat_groups,
                std::vector<Sublayer> sublayers);
  std::string name() const override { return name_; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;
  // Split only if all branches support it. Between the halves the gradient of a branch's output is in "input" of the
  // norm behind it.
  void input_gradients(Step& step, Flow& flow, Saved& saved) override;
  void weight_gradients(Step& step, Flow& flow, Saved& saved) override;

 private:
  // Tensors of each branch and the norm before it, then of the last norm.
  std::vector<std::vector<plan::SavedTensor>> tensors(const Step& step, plan::Pass pass) const;
  plan::ModelConfig model_;
  std::string name_;
  LayerGroups flat_groups_;
  std::vector<Sublayer> sublayers_;
  bool apart_;  // do all branches support separate weight gradients
};

}  // namespace trainyard::model
