// Expert: the network of a layer's experts. One object computes all experts that a rank holds at once.
#pragma once

#include "kernels/grouped_linear/grouped_linear.h"
#include "libtrain/model/saved.h"
#include "libtrain/plan/blocks/expert_kind.h"

#include <functional>
#include <memory>
#include <string>

namespace trainyard::model {

// The views of one parameter in all experts. `parameter`: its index in the kind's declaration; -1 gives an empty view.
using ExpertParameters = std::function<kernels::GroupedView(int parameter)>;

// An Expert is made from its description, a plan::ExpertKind, and keeps to it. A group is a run of neighbouring rows of
// one expert. The numbers of a row, and sums over the rows of a group, do not depend on other groups. Rows outside all
// groups are neither read nor written. The exception is a function of each row by itself, which may run over them.
class Expert {
 public:
  virtual ~Expert() = default;
  // x, y [rows, hidden].
  virtual void forward(Step& step, const kernels::RowGroups& groups, const ExpertParameters& weights, base::View x,
                       const SavedSet& tensors, base::View y) const = 0;
  // Called with Recompute::selective before backward: recomputes the tensors that did not stay.
  virtual void make_again(Step&, const SavedSet&) const {}
  // Backward has two parts, because weight gradients are computed source by source (a source is a rank whose tokens
  // came here). This part overwrites dx [rows, hidden], and leaves in the tensors what the second part needs.
  virtual void input_gradients(Step& step, const kernels::RowGroups& groups, const ExpertParameters& weights,
                               base::View dy, base::View x, const SavedSet& tensors, base::View dx) const = 0;
  // The second part, with the same rows and tensors, for some of the groups, of which each expert has at most one.
  // Overwrites every gradient of these experts.
  virtual void weight_gradients(Step& step, const kernels::RowGroups& groups, const ExpertParameters& gradients,
                                base::View dy, base::View x, const SavedSet& tensors) const = 0;
};

// What an Expert is made from. The declaration of one expert says where its parameters are.
struct ExpertSpec {
  const plan::ModelConfig& model;  // as the layer sees it
  const plan::FlatGroup& one;      // the flat group that the kind declares for one expert
};
using ExpertFactory = std::function<std::unique_ptr<Expert>(const ExpertSpec& spec)>;

// As register_branch (model/assemble.h). A model names the network in experts.network.
void register_expert(const std::string& name, std::shared_ptr<const plan::ExpertKind> kind, ExpertFactory factory);
std::unique_ptr<Expert> make_expert(const std::string& name, const ExpertSpec& spec);

}  // namespace trainyard::model
