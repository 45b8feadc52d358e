// PreNormLayer: each branch behind a norm, its output added to the hidden states: x + dropout(branch(norm(x))), branch
// after branch.
#pragma once

#include "libtrain/model/sublayer.h"

#include <string>
#include <vector>

namespace trainyard::model {

// Leases its flat group once in forward and once in backward, and commits its gradients once, at the end of backward.
// Described by plan::LayerKind. The norm behind a branch adds the branch's output, because it reads both anyway: one
// pass over memory for the two. If nobody reads its own output, a layer ends with the tensors of its last branch. With
// Recompute::selective, tensors that do not always stay lie above those that do, while a branch and its norm run.
class PreNormLayer : public Block {
 public:
  PreNormLayer(const plan::ModelConfig& model, std::string name, plan::Occurrence occurrence,
               std::vector<Sublayer> sublayers);
  std::string name() const override { return name_; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;
  // Split only if all branches support it. Between the halves the gradient of a branch's output is in "input".
  void input_gradients(Step& step, Flow& flow, Saved& saved) override;
  void weight_gradients(Step& step, Flow& flow, Saved& saved) override;

 private:
  std::vector<std::vector<plan::SavedTensor>> tensors(const Step& step, plan::Pass pass) const;  // of each sublayer
  SavedSet take(const Sublayer& sublayer, const std::vector<plan::SavedTensor>& tensors, Step& step,
                const params::Lease& lease, Saved& saved) const;
  plan::ModelConfig model_;
  std::string name_;
  plan::Occurrence occurrence_;
  std::vector<Sublayer> sublayers_;
  bool apart_;  // do all branches support separate weight gradients
};

}  // namespace trainyard::model
