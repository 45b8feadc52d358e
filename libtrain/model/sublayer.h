// Sublayer: a branch of a layer with its norms and the dropout of what is added, for residual and post-norm layers.
#pragma once

#include "libtrain/model/branch.h"
#include "libtrain/model/norm_part.h"
#include "libtrain/plan/spec/conditions.h"

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

// The flat groups that a layer leases and commits while it runs: its own, the one of its adapters, and the table of
// relative positions of its tower. With adapters its own is frozen.
struct LayerGroups {
  plan::Occurrence own;
  std::optional<plan::Occurrence> adapter = {}, relative_positions = {};

  class Leases {
   public:
    Leases(Step& step, const LayerGroups& groups)
        : step_(step), own_(step.store->lease(groups.own)), adapter_(more(step, groups.adapter)),
          relative_positions_(more(step, groups.relative_positions)) {
      step.adapter = adapter_ ? &*adapter_ : nullptr;
      step.relative_positions = relative_positions_ ? &*relative_positions_ : nullptr;
    }
    ~Leases() { step_.adapter = step_.relative_positions = nullptr; }
    Leases(const Leases&) = delete;
    Leases& operator=(const Leases&) = delete;
    const params::Lease& own() const { return own_; }

   private:
    static std::optional<params::Lease> more(Step& step, const std::optional<plan::Occurrence>& occurrence) {
      return occurrence ? std::optional(step.store->lease(*occurrence)) : std::nullopt;
    }
    Step& step_;
    params::Lease own_;
    std::optional<params::Lease> adapter_, relative_positions_;
  };
  class Gradients {
   public:
    Gradients(Step& step, const LayerGroups& groups)
        : step_(step), own_(groups.adapter ? params::Grads() : step.store->grads(groups.own)),
          adapter_(more(step, groups.adapter)), relative_positions_(more(step, groups.relative_positions)) {
      step.adapter_gradients = adapter_ ? &*adapter_ : nullptr;
      step.relative_positions_gradients = relative_positions_ ? &*relative_positions_ : nullptr;
    }
    ~Gradients() noexcept(false) { step_.adapter_gradients = step_.relative_positions_gradients = nullptr; }
    Gradients(const Gradients&) = delete;
    Gradients& operator=(const Gradients&) = delete;
    const params::Grads& own() const { return own_; }
    void commit() {
      if (relative_positions_) relative_positions_->commit();
      if (adapter_) adapter_->commit();
      own_.commit();
    }

   private:
    static std::optional<params::Grads> more(Step& step, const std::optional<plan::Occurrence>& occurrence) {
      return occurrence ? std::optional(step.store->grads(*occurrence)) : std::nullopt;
    }
    Step& step_;
    params::Grads own_;
    std::optional<params::Grads> adapter_, relative_positions_;
  };
};

inline bool make_weight_gradients_apart(const plan::ModelConfig& model, const std::vector<Sublayer>& sublayers) {
  return !plan::has_adapter(model) && !plan::has_relative_positions(model) &&
         std::all_of(sublayers.begin(), sublayers.end(),
                     [](const Sublayer& s) { return s.kind->makes_weight_gradients_apart(); });
}

// Copies the gradients of a norm from its tensor "norm_gradients" to the store's buffers.
inline void hand_over_gradients(Step& step, const NormPart& norm, const SavedSet& tensors, const params::Grads& grads) {
  const auto made = norm.gradients(tensors), there = norm.gradients(grads);
  tensor::copy(step.exec, made.weight, there.weight);
  if (made.bias) tensor::copy(step.exec, made.bias, there.bias);
}

}  // namespace trainyard::model
