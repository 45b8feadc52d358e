// QueryKeyNorm: RMS norms of queries and keys before the rotation (plan::QkNorm).
#pragma once

#include "kernels/head_norm/head_norm.h"
#include "libtrain/model/saved.h"
#include "libtrain/plan/spec/widths.h"

#include <array>

namespace trainyard::model {

// Over each head, with weights that all heads and all tensor-parallel ranks share; or over the width of all heads,
// which ranks divide. Sums over heads of several ranks are made by reduction lanes, so that their bits do not depend on
// the degree of tensor parallelism. Uses "qkv" and the tensors of plan::add_query_key_tensors. Of each pair, queries
// come first.
class QueryKeyNorm {
 public:
  QueryKeyNorm(const plan::ModelConfig& model, const plan::FlatGroup& flat_group);
  // Whether the model has these norms. If not, nothing else may be called.
  bool exists() const { return weights_[0] >= 0; }

  void sum_squares(Step& step, const SavedSet& tensors) const;  // fills "qk_squares"
  // Fills "qk" from "qkv" and "qk_squares".
  void forward(Step& step, const params::Lease& lease, const SavedSet& tensors) const;

  using Pair = std::array<base::View, 2>;
  Pair gradients(const params::Grads& grads) const;  // where the gradients of the weights go
  Pair gradients(const SavedSet& tensors) const;     // views of "qk_norm_gradients"
  void hand_over(Step& step, const SavedSet& tensors, const params::Grads& grads) const;  // the latter to the former
  // Replaces the gradients of normed queries and keys, `d`, by the gradients of what "qkv" has. Overwrites the
  // weights'.
  void backward(Step& step, const params::Lease& lease, const SavedSet& tensors, const Pair& d,
                const Pair& weight_gradients) const;

 private:
  plan::Widths widths(const Step& step) const { return {model_, step.collectives->ranks()}; }
  Pair columns(const plan::Widths& widths, base::View qk) const;  // of "qkv" or "qk"
  Pair rows(const plan::Widths& widths, base::View sums) const;   // of "qk_squares" or what lies like it
  kernels::HeadNorm norm(int which, base::View weight, base::View squares) const;
  base::View of_all_lanes(Step& step, base::View mine) const;
  void gather_lanes(Step& step, base::View mine, base::View all) const;
  void sum_up(Step& step, std::array<kernels::HeadNormSums, 2> sums, base::View out) const;
  plan::ModelConfig model_;
  std::array<int, 2> weights_;
};

}  // namespace trainyard::model
