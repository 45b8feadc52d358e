// Scratch of products, one by one and fused.
#include "libtrain/plan/blocks/products.h"

#include "libtrain/plan/scratch.h"

#include <algorithm>

namespace trainyard::plan {

Products::Products(const ModelConfig& model, const MicroShape& shape) : m_(model), s_(shape) {}

std::int64_t Products::rows(std::int64_t cols) const { return base::aligned(s_.rows() * cols * s_.element_bytes()); }

std::int64_t Products::product(std::int64_t rows, std::int64_t cols, std::int64_t inner, Result result) const {
  if (on_gpu()) return gpu_gemm_scratch_bytes;
  return gemm_scratch_bytes(rows, cols, inner, result == Result::working && s_.dtype == base::DType::bf16);
}

std::int64_t Products::weight_gradient(std::int64_t out, std::int64_t in) const {
  const auto bias = m_.biases ? column_sum_scratch_bytes(s_.rows(), out, accumulation_bytes()) : 0;
  const auto weight = product(out, in, s_.rows(), Result::accumulation);
  return on_gpu() ? weight + bias : std::max(weight, bias);  // a GPU has both in one call
}

// The widths of the products that neighbours become: a gap appears where a tensor does not end at 64 bytes.
std::vector<std::int64_t> Products::spans(const FusedLayers& layers, Look look) const {
  std::vector<std::int64_t> widths;
  const auto& outs = layers.outs;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    const bool near = layers.adjacent == FusedLayers::Adjacent::yes || !m_.biases;
    const bool joins = i > 0 && near && outs[i - 1] * layers.in % 16 == 0 &&
                       (!m_.biases || look == Look::weights || outs[i - 1] % 16 == 0);
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

std::int64_t Products::fused_backward(const FusedLayers& layers) const {
  const auto parts = spans(layers, Look::weights);
  const bool added = parts.size() > 1 && s_.dtype == base::DType::bf16;  // in f32, rounded once
  std::int64_t most = 0;
  for (auto out : parts)
    most = std::max(most, product(s_.rows(), layers.in, out, added ? Result::accumulation : Result::working));
  if (added) most += base::aligned(s_.rows() * layers.in * accumulation_bytes());
  for (auto out : spans(layers, Look::weights_and_biases)) most = std::max(most, weight_gradient(out, layers.in));
  return most;
}

}  // namespace trainyard::plan
