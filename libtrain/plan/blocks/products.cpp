// Scratch of single and fused products.
#include "libtrain/plan/blocks/products.h"

#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>
#include <numeric>

namespace trainyard::plan {

Products::Products(const ModelConfig& model, const MicroShape& shape) : m_(model), s_(shape) {}

std::int64_t Products::rows(std::int64_t cols) const { return base::aligned(s_.rows() * cols * s_.element_bytes()); }

std::int64_t Products::stream(std::int64_t cols) const {
  return base::aligned(s_.own_rows() * cols * s_.element_bytes());
}

std::int64_t Products::partial(std::int64_t cols) const {
  const auto sums = Widths(m_, s_.tensor).partials;
  const bool apart = s_.tensor > 1 && (s_.sequence_parallel || base::is_narrow(s_.dtype) || sums > 1);
  return apart ? base::aligned(sums * s_.rows() * cols * accumulation_bytes()) : 0;
}

// If a rank sends the sum of each of its lanes, these are products of their own.
std::int64_t Products::lane_product(std::int64_t rows, std::int64_t cols, const std::vector<std::int64_t>& inner,
                                    std::int64_t neighbours) const {
  const bool rounds = s_.tensor == 1 && base::is_narrow(s_.dtype);
  const Widths w(m_, s_.tensor);
  const auto lanes = w.lanes / w.partials, parts = static_cast<std::int64_t>(inner.size());
  if (on_gpu())
    return gpu_lane_gemm_scratch_bytes(rows, cols, w.in_lanes ? parts : neighbours, lanes, rounds,
                                       accumulation_bytes());
  const auto all = std::accumulate(inner.begin(), inner.end(), std::int64_t{0});
  return lane_gemm_scratch_bytes(rows, cols, all / w.partials, parts, lanes, rounds);
}

std::int64_t Products::product(std::int64_t rows, std::int64_t cols, std::int64_t inner, Result result) const {
  if (on_gpu()) return gpu_gemm_scratch_bytes;
  return gemm_scratch_bytes(rows, cols, inner, result == Result::working && base::is_narrow(s_.dtype));
}

std::int64_t Products::weight_gradient(std::int64_t out, std::int64_t in, bool has_bias) const {
  const auto bias = has_bias ? column_sum_scratch_bytes(s_.rows(), out, accumulation_bytes()) : 0;
  const auto weight = product(out, in, s_.rows(), Result::accumulation);
  return on_gpu() ? weight + bias : std::max(weight, bias);  // a GPU computes both in one call
}

std::int64_t Products::grouped(ExpertRows of, std::int64_t cols, std::int64_t inner, std::int64_t parts,
                               std::int64_t lanes) const {
  if (on_gpu()) return gpu_grouped_linear_scratch_bytes(of.rows, cols, lanes, accumulation_bytes());
  return grouped_linear_scratch_bytes({.rows = of.rows,
                                       .groups = of.groups,
                                       .n = cols,
                                       .k = inner,
                                       .parts = parts,
                                       .lanes = lanes,
                                       .narrow_result = base::is_narrow(s_.dtype)},
                                      s_.threads);
}

std::int64_t Products::grouped_forward(ExpertRows of, std::int64_t out, std::int64_t in, std::int64_t lanes) const {
  return grouped(of, out, in, 1, lanes);
}

std::int64_t Products::grouped_input(ExpertRows of, std::int64_t out, std::int64_t in, std::int64_t parts,
                                     std::int64_t lanes) const {
  return grouped(of, in, parts * out, parts, lanes);
}

std::int64_t Products::grouped_weight(ExpertRows of, std::int64_t out, std::int64_t in) const {
  return on_gpu() ? 0 : grouped_linear_weight_scratch_bytes(of.rows, out, in, s_.threads);
}

// The widths of the products that neighbours become. There is a gap where a tensor does not end at a multiple of 64
// bytes.
std::vector<std::int64_t> Products::spans(const FusedLayers& layers, Look look) const {
  std::vector<std::int64_t> widths;
  const auto& outs = layers.outs;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    const bool near = layers.adjacent == FusedLayers::Adjacent::yes || !layers.biases;
    const bool joins = i > 0 && near && outs[i - 1] * layers.in % 16 == 0 &&
                       (!layers.biases || look == Look::weights || outs[i - 1] % 16 == 0);
    if (joins) widths.back() += outs[i];
    else widths.push_back(outs[i]);
  }
  return widths;
}

std::int64_t Products::fused_forward(const FusedLayers& layers) const {
  std::int64_t most = 0;
  for (auto out : spans(layers, Look::weights_and_biases)) most = std::max(most, linear(out, layers.in));
  return most;
}

// Partial sums exist while weight gradients are computed.
std::int64_t Products::fused_backward(const FusedLayers& layers) const {
  return std::max(fused_inputs(layers), partial(layers.in) + fused_weights(layers));
}

std::int64_t Products::fused_inputs(const FusedLayers& layers) const {
  const auto neighbours = static_cast<std::int64_t>(spans(layers, Look::weights).size());
  return partial(layers.in) + lane_product(s_.rows(), layers.in, layers.outs, neighbours);
}

std::int64_t Products::fused_weights(const FusedLayers& layers) const {
  std::int64_t most = 0;
  for (auto out : spans(layers, Look::weights_and_biases))
    most = std::max(most, weight_gradient(out, layers.in, layers.biases));
  return most;
}

}  // namespace trainyard::plan
