// Neighbouring linear layers over one input as one product: q, k, v and gate, up lie side by side in a unit's flat
// layout.
#pragma once

#include "libtrain/params/store.h"
#include "libtrain/tensor/exec.h"

#include <functional>
#include <vector>

namespace trainyard::model {

// Layers y_i = x W_i^T + b_i whose outputs are neighbouring column slices of y [n, sum of out_i]. Where the weights
// (and biases) of neighbours have no gap between them in memory, they are one product; otherwise one product each. Both
// give the same bits: every output column and every row of a weight gradient is its own sum. Only the input gradient
// adds in another order, so whether there is a gap must not depend on the run: it does not, offsets follow from the
// plan alone.
class FusedLinear {
 public:
  // Indices in the order of the columns; bias -1 where there is none.
  struct Indices {
    int weight, bias;
  };
  explicit FusedLinear(std::vector<Indices> indices) : indices_(std::move(indices)) {}

  void forward(tensor::Exec& exec, const params::Lease& lease, base::View x, base::View y) const;
  // dx [n, in] is overwritten. In bf16 products of weights with gaps between them are added in f32, in scratch, and
  // rounded once.
  void backward_input(tensor::Exec& exec, const params::Lease& lease, base::View dy, base::View dx) const;
  void backward_weight(tensor::Exec& exec, const params::Grads& grads, base::View dy, base::View x) const;

 private:
  struct Span {
    base::View weight, bias;
    std::int64_t first;
  };  // columns [first, first + weight.rows())
  enum class Look { weights, weights_and_biases };
  std::vector<Span> spans(const std::function<base::View(int)>& borrowed, Look look) const;
  std::vector<Indices> indices_;
};

}  // namespace trainyard::model
