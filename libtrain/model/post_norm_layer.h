// PostNormLayer: a norm behind each branch and its sum with the residual stream: norm(x + dropout(branch(x))), branch
// after branch (Vaswani et al. 2017, "Attention is all you need", section 3.1; Devlin et al. 2019, "BERT").
#pragma once

#include "libtrain/model/sublayer.h"

#include <string>
#include <vector>

namespace trainyard::model {

// Leases its flat group once in forward and once in backward, and commits its gradients once, at the end of backward.
// Described by plan::LayerKind. The sum is made by the norm that reads it: one pass over memory for the two. What a
// norm puts out is the stream, and the tensor "normed" of the next branch; the last norm's is the stream alone.
class PostNormLayer : public Block {
 public:
  PostNormLayer(const plan::ModelConfig& model, std::string name, plan::Occurrence occurrence,
                std::vector<Sublayer> sublayers);
  std::string name() const override { return name_; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;
  // Where all branches can. Between the two the gradient of a branch's output lies in "input" of the norm behind it.
  void input_gradients(Step& step, Flow& flow, Saved& saved) override;
  void weight_gradients(Step& step, Flow& flow, Saved& saved) override;

 private:
  // Of each branch and the norm before it, then of the last norm.
  std::vector<std::vector<plan::SavedTensor>> tensors(const Step& step, plan::Pass pass) const;
  plan::ModelConfig model_;
  std::string name_;
  plan::Occurrence occurrence_;
  std::vector<Sublayer> sublayers_;
  bool apart_;  // can all branches make their weight gradients apart
};

}  // namespace trainyard::model
