// Sublayer: a branch of a layer with its norms and the dropout of what is added, for residual and post-norm layers.
#pragma once

#include "libtrain/model/branch.h"
#include "libtrain/model/norm_part.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

namespace trainyard::model {

struct Sublayer {
  const plan::BranchKind* kind;
  std::optional<NormPart> norm;  // before the branch; in a post-norm layer behind the sum
  std::unique_ptr<Branch> branch;
  DropoutSite residual;
  std::optional<NormPart> behind = {};  // reads the branch's output, before it is added

  // With Recompute::selective: recomputes the tensors that the branch did not keep, if it has such tensors.
  void make_again(Step& step, const plan::ModelConfig& model, const SavedSet& tensors) const {
    const auto all = kind->tensors(model, shape_of(step), plan::Pass::train);
    if (!plan::only(all, plan::Stays::unless_selective).empty()) branch->make_again(step, tensors);
  }
};

inline bool make_weight_gradients_apart(const std::vector<Sublayer>& sublayers) {
  return std::all_of(sublayers.begin(), sublayers.end(),
                     [](const Sublayer& s) { return s.kind->makes_weight_gradients_apart(); });
}

// Copies the gradients of a norm from its tensor "norm_gradients" to the store's buffers.
inline void hand_over_gradients(Step& step, const NormPart& norm, const SavedSet& tensors, const params::Grads& grads) {
  const auto made = norm.gradients(tensors), there = norm.gradients(grads);
  tensor::copy(step.exec, made.weight, there.weight);
  if (made.bias) tensor::copy(step.exec, made.bias, there.bias);
}

}  // namespace trainyard::model
