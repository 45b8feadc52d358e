// Adapters: the low-rank matrices beside the linear layers of one branch.
#pragma once

#include "libtrain/model/branch.h"
#include "libtrain/plan/spec/widths.h"

#include <array>
#include <initializer_list>
#include <string_view>

namespace trainyard::model {

// y = W x + B (scale A x) (plan/spec/adapter_config.h). A x is in the working dtype, and so is its product with B,
// which is added to W x. The layer gives the weights and the gradients of its adapters to the step. Scratch,
// collectives and tensors are described in plan/blocks/adapter.h. Functions do nothing for a linear layer without an
// adapter.
//
// Column-parallel: each tensor-parallel rank has A whole, and the rows of B that belong to its outputs. Row-parallel:
// each rank has the columns of A that belong to its inputs, and B whole. Sums over what ranks divide are made in
// reduction lanes, so that no bit depends on the tensor-parallel degree.
class Adapters {
 public:
  explicit Adapters(const BranchSpec& spec);
  bool has(std::string_view target) const { return of(target).a >= 0; }

  // Outputs, or their gradients, of a column-parallel layer.
  struct Columns {
    std::string_view target;
    base::View y;  // [n, outputs of this rank]
  };
  // Adds to each y. x: all rows of the input of all these layers.
  void add_outputs(Step& step, base::View x, std::initializer_list<Columns> layers, const SavedSet& tensors) const;
  // Overwrites the gradients of A and B, and adds to dx [own rows, in]. x as before.
  void backward_outputs(Step& step, base::View x, std::initializer_list<Columns> layers, const SavedSet& tensors,
                        base::View dx) const;

  // Row-parallel: makes what the layer adds and what backward reads. x [n, inputs of this rank].
  void begin_inputs(Step& step, std::string_view target, base::View x, const SavedSet& tensors) const;
  // Adds it to y [own rows, out].
  void add_inputs(Step& step, std::string_view target, const SavedSet& tensors, base::View y) const;
  // Overwrites the gradients of A and B, and adds to dx. dy [n, out]: of all rows.
  struct Rows {
    std::string_view target;
    base::View dy, x, dx;
  };
  void backward_inputs(Step& step, const Rows& layer, const SavedSet& tensors) const;

 private:
  struct Pair {
    int a = -1, b = -1;  // -1: the layer has no adapter
  };
  const Pair& of(std::string_view target) const;
  void scale(Step& step, base::View inner) const;
  plan::ModelConfig model_;
  std::array<Pair, std::size(plan::adapter_targets)> pairs_;
};

}  // namespace trainyard::model
