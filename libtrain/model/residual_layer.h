// ResidualLayer: branches whose outputs are added to the hidden states, with norms before branches, behind them, or
// both, and one branch after another or side by side.
#pragma once

#include "libtrain/model/sublayer.h"

#include <string>
#include <vector>

namespace trainyard::model {

// pre: x + dropout(branch(norm(x))). inside-post: x + dropout(norm(branch(x))). sandwich: x +
// dropout(norm(branch(norm(x)))). Branches that are side by side (plan::is_parallel) all see the layer's input, and
// their outputs are added to it in their order.
//
// Leases its flat group once in forward and once in backward, and commits its gradients once, at the end of backward.
// Described by plan::LayerKind. The norm behind a sum also adds it up, because it reads both terms anyway: one pass
// over memory for the two. If nobody reads its own output, a layer leaves out what only the output needs. With
// Recompute::selective, tensors that do not always stay lie above those that do, while a branch and its norm run.
class ResidualLayer : public Block {
 public:
  ResidualLayer(const plan::ModelConfig& model, std::string name, LayerGroups flat_groups,
                std::vector<Sublayer> sublayers);
  std::string name() const override { return name_; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  void backward(Step& step, Flow& flow, Saved& saved) override;
  // Split only if all branches support it. Between the halves the gradient of a branch's output is in "input" of the
  // norm behind it, or of the norm before it.
  void input_gradients(Step& step, Flow& flow, Saved& saved) override;
  void weight_gradients(Step& step, Flow& flow, Saved& saved) override;

 private:
  struct Groups {
    std::vector<plan::SavedTensor> branch, behind;  // of a branch with the norm before it, and of the norm behind it
  };
  std::vector<Groups> groups(const Step& step, plan::Pass pass) const;  // of each sublayer
  bool skips_output(const Step& step, const Sublayer& sublayer) const;
  base::View enter(Step& step, const params::Lease& lease, std::size_t i, base::View x, base::View output,
                   const SavedSet& tensors) const;
  SavedSet take(const Sublayer& sublayer, const std::vector<plan::SavedTensor>& tensors, Step& step,
                const params::Lease& lease, Saved& saved) const;
  base::View output_gradient(Step& step, base::View stream) const;
  plan::ModelConfig model_;
  std::string name_;
  LayerGroups flat_groups_;
  std::vector<Sublayer> sublayers_;
  bool parallel_, apart_;  // are branches side by side; do all support separate weight gradients
};

}  // namespace trainyard::model
