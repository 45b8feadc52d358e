// FusedLinear: neighbouring linear layers over one input as one product. q, k, v are neighbours in a flat group's
// layout, and so are gate, up.
#pragma once

#include "kernels/linear/linear.h"
#include "libtrain/model/saved.h"
#include "libtrain/plan/spec/widths.h"

#include <functional>
#include <vector>

namespace trainyard::model {

// Layers y_i = x W_i^T + b_i whose outputs are neighbouring column slices of y [n, sum of out_i]. Neighbours whose
// weights (and biases) have no gap between them in memory are one product in forward, and one for the weight gradients.
// Otherwise each is a product of its own. Both give the same bits, because every output column and every row of a
// weight gradient is its own sum.
class FusedLinear {
 public:
  // Indices in the order of the columns; bias -1 where there is none.
  struct Indices {
    int weight, bias;
  };
  explicit FusedLinear(std::vector<Indices> indices) : indices_(std::move(indices)) {}

  void forward(tensor::Exec& exec, const params::Lease& lease, base::View x, base::View y) const;
  struct Backward {
    base::View dy;
    const plan::Widths& widths;
    const AllRows& x;
    base::View dx;
  };
  // Overwrites dx [own rows, in]: the sum over the outputs of all layers and over tensor-parallel ranks, in reduction
  // lanes, rounded once. Overwrites the gradients of weights and biases.
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, const Backward& of) const;
  // The two halves of backward; x [n, in].
  void input_gradient(Step& step, const params::Lease& lease, base::View dy, const plan::Widths& widths,
                      base::View dx) const;
  void weight_gradients(Step& step, const params::Grads& grads, base::View dy, base::View x) const;

 private:
  std::vector<kernels::LinearPart> parts(const params::Lease& lease, base::View dy) const;
  struct Span {
    base::View weight, bias;
    std::int64_t first;
  };  // columns [first, first + weight.rows()) of y
  std::vector<Span> spans(const std::function<base::View(int)>& borrowed) const;
  std::vector<Indices> indices_;
};

}  // namespace trainyard::model
