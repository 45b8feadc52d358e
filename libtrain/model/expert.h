// Expert: the network of the experts of a layer, all that a rank holds at once.
#pragma once

#include "kernels/grouped_linear/grouped_linear.h"
#include "libtrain/model/saved.h"
#include "libtrain/plan/expert_kind.h"

#include <functional>
#include <memory>
#include <string>

namespace trainyard::model {

// A parameter of every expert by its place in the kind's declaration; -1 gives nothing.
using ExpertParameters = std::function<kernels::GroupedView(int parameter)>;

// Made from its description, a plan::ExpertKind, and keeps to it. Rows of a group are neighbours, and those of one
// expert; the numbers of a row, and the sums over the rows of a group, do not depend on what other groups have. Rows of
// no group are neither read nor written, but that a function of each row by itself may run over them.
class Expert {
 public:
  virtual ~Expert() = default;
  // x, y [rows, hidden].
  virtual void forward(Step& step, const kernels::RowGroups& groups, const ExpertParameters& weights, base::View x,
                       const SavedSet& tensors, base::View y) const = 0;
  // With Recompute::selective, before backward: fills the tensors that did not stay.
  virtual void make_again(Step&, const SavedSet&) const {}
  // Backward in two parts, as gradients of weights are made rank by rank of those whose tokens came. Overwrites dx
  // [rows, hidden], and leaves in the tensors what the second part needs.
  virtual void input_gradients(Step& step, const kernels::RowGroups& groups, const ExpertParameters& weights,
                               base::View dy, base::View x, const SavedSet& tensors, base::View dx) const = 0;
  // After it, with the same rows and tensors: of some of the groups, of which each expert has one at most. Overwrites
  // every gradient of these experts.
  virtual void weight_gradients(Step& step, const kernels::RowGroups& groups, const ExpertParameters& gradients,
                                base::View dy, base::View x, const SavedSet& tensors) const = 0;
};

// What an expert is made from: the declaration of one of them says where its parameters lie.
struct ExpertSpec {
  const plan::ModelConfig& model;  // as the layer sees it
  const plan::FlatGroup& one;      // the flat group that the kind declares for one expert
};
using ExpertFactory = std::function<std::unique_ptr<Expert>(const ExpertSpec& spec)>;

// As register_branch (model/assemble.h). A model names it by experts.network.
void register_expert(const std::string& name, std::shared_ptr<const plan::ExpertKind> kind, ExpertFactory factory);
std::unique_ptr<Expert> make_expert(const std::string& name, const ExpertSpec& spec);

}  // namespace trainyard::model
