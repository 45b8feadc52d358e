// Scratch of matrix products and of the column sums beside them, as kernels/linear and model/fused_linear use it, for
// the descriptions of blocks.
#pragma once

#include "libtrain/plan/blocks/expert_kind.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Linear layers with one input whose outputs are neighbouring columns: q, k, v; gate, up. Neighbours that are adjacent
// in the flat group are one product (model::FusedLinear).
struct FusedLayers {
  enum class Adjacent { yes, yes_without_biases };  // whether neighbours' weights are adjacent in the declaration
  std::vector<std::int64_t> outs;
  std::int64_t in;
  Adjacent adjacent;
  bool biases;
};

class Products {
 public:
  Products(const ModelConfig& model, const MicroShape& shape);

  enum class Result { working, accumulation };  // accumulation: f32 even if the working dtype is bf16

  std::int64_t rows(std::int64_t cols) const;    // bytes of a tensor [n, cols] in the working dtype
  std::int64_t stream(std::int64_t cols) const;  // the same with this rank's rows of hidden states
  // The same with all rows, gathered with sequence parallelism; 0: there is nothing to gather.
  std::int64_t gathered(std::int64_t cols) const { return s_.sequence_parallel ? rows(cols) : 0; }
  // This rank's partial sums of all rows, in the accumulation dtype; 0 if they lie in the result itself.
  std::int64_t partial(std::int64_t cols) const;
  std::int64_t accumulation_bytes() const { return base::size_of(s_.accumulation()); }
  bool on_gpu() const { return s_.device == base::DeviceKind::cuda; }

  std::int64_t product(std::int64_t rows, std::int64_t cols, std::int64_t inner, Result result) const;
  // `rows` x `cols` in reduction lanes over the inner widths of its parts, all on this rank (kernels/linear).
  // `neighbours` is the number of parts when parts that are adjacent in memory count as one.
  std::int64_t lane_product(std::int64_t rows, std::int64_t cols, const std::vector<std::int64_t>& inner,
                            std::int64_t neighbours = 1) const;
  // model::shared_forward: a product in lanes over all rows, with its partial sums.
  std::int64_t shared_sum(std::int64_t cols, const std::vector<std::int64_t>& inner) const {
    return partial(cols) + lane_product(s_.rows(), cols, inner);
  }
  std::int64_t linear(std::int64_t out, std::int64_t in) const { return product(s_.rows(), out, in, Result::working); }
  // Scratch of kernels/grouped_linear, for the rows of a layer's experts.
  std::int64_t grouped_forward(ExpertRows of, std::int64_t out, std::int64_t in, std::int64_t lanes) const;
  std::int64_t grouped_input(ExpertRows of, std::int64_t out, std::int64_t in, std::int64_t parts,
                             std::int64_t lanes) const;
  std::int64_t grouped_weight(ExpertRows of, std::int64_t out, std::int64_t in) const;  // with the bias gradient
  std::int64_t weight_gradient(std::int64_t out, std::int64_t in, bool bias) const;     // with the bias gradient
  std::int64_t fused_forward(const FusedLayers& layers) const;
  std::int64_t fused_backward(const FusedLayers& layers) const;  // input and weight gradients
  std::int64_t fused_inputs(const FusedLayers& layers) const;    // input gradients alone
  std::int64_t fused_weights(const FusedLayers& layers) const;

 private:
  std::int64_t grouped(ExpertRows of, std::int64_t cols, std::int64_t inner, std::int64_t parts,
                       std::int64_t lanes) const;
  enum class Look { weights, weights_and_biases };
  std::vector<std::int64_t> spans(const FusedLayers& layers, Look look) const;
  const ModelConfig& m_;
  const MicroShape& s_;
};

}  // namespace trainyard::plan
