// What the feed-forward branch declares, saves and needs.
#include "libtrain/plan/blocks/feed_forward.h"

#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

FusedLayers inner(const ModelConfig& m, const MicroShape& s) {
  const auto width = Widths(m, s.tensor).ffn;
  return {is_gated(m) ? std::vector{width, width} : std::vector{width}, m.hidden,
          FusedLayers::Adjacent::yes_without_biases, has_biases(m)};
}

}  // namespace

void FeedForwardKind::declare_of(const ModelConfig& m, Declaration& d) const {
  using Shared = Declaration::Shared;
  const auto name = [&](const char* of) { return names_.prefix + of; };
  if (is_gated(m)) {
    d.weight(name(".gate.weight"), m.ffn, m.hidden, Shared::outputs);
    d.bias(name(".gate.bias"), m.ffn, Shared::outputs);
  }
  d.weight(name(".up.weight"), m.ffn, m.hidden, Shared::outputs);
  d.bias(name(".up.bias"), m.ffn, Shared::outputs);
  d.residual_weight(name(".down.weight"), m.hidden, m.ffn, Shared::inputs);
  d.bias(name(".down.bias"), m.hidden);
}

// "activated" can be recomputed from "inner". The exception is GELU's tanh form on a GPU: the library fuses it, and
// takes it from sums that are not rounded yet, with a tanh of its own. That gives other bits than "inner" does.
std::vector<SavedTensor> FeedForwardKind::tensors(const ModelConfig& m, const MicroShape& s, Pass) const {
  const auto width = Widths(m, s.tensor).ffn;
  const bool fused = m.activation == Activation::gelu_tanh && s.device == base::DeviceKind::cuda;
  std::vector<SavedTensor> out{{names_.inner, s.dtype, s.rows(), is_gated(m) ? 2 * width : width}};
  add_adapter_tensors(m, s, names_.prefix, out);
  out.push_back({names_.activated, s.dtype, s.rows(), width, fused ? Stays::always : Stays::unless_selective});
  return out;
}

bool has_activated_gradient(const ModelConfig& m) {
  return is_gated(m) || has_adapter_on(m, "down") || m.dropout_ffn > 0;
}

std::int64_t FeedForwardKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass) const {
  const Products p(m, s);
  return std::max(
      {p.gathered(m.hidden) + std::max(p.fused_forward(inner(m, s)), adapter_forward_bytes(m, s, names_.prefix, true)),
       adapter_forward_bytes(m, s, names_.prefix, false), p.shared_sum(m.hidden, {Widths(m, s.tensor).ffn})});
}

std::int64_t FeedForwardKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const auto width = Widths(m, s.tensor).ffn;
  // Otherwise the derivative is applied in place.
  const auto gradients = p.rows(is_gated(m) ? 2 * width : width) + (has_activated_gradient(m) ? p.rows(width) : 0);
  if (has_adapter(m))
    return gradients + p.gathered(m.hidden) + (reads_input_in_backward(m, names_.prefix) ? p.gathered(m.hidden) : 0) +
           std::max({p.linear(width, m.hidden), adapter_backward_bytes(m, s, names_.prefix, false),
                     p.fused_inputs(inner(m, s)), adapter_backward_bytes(m, s, names_.prefix, true)});
  return gradients + 2 * p.gathered(m.hidden) +
         std::max({p.weight_gradient(m.hidden, width, has_biases(m)), p.linear(width, m.hidden),
                   p.fused_backward(inner(m, s))});
}

std::int64_t FeedForwardKind::input_gradients_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const auto width = Widths(m, s.tensor).ffn;
  return p.rows(is_gated(m) ? 2 * width : width) + (has_activated_gradient(m) ? p.rows(width) : 0) +
         p.gathered(m.hidden) + std::max(p.linear(width, m.hidden), p.fused_inputs(inner(m, s)));
}

std::int64_t FeedForwardKind::weight_gradients_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  return p.gathered(m.hidden) +
         std::max(p.weight_gradient(m.hidden, Widths(m, s.tensor).ffn, has_biases(m)), p.fused_weights(inner(m, s)));
}

double FeedForwardKind::forward_flops(const ModelConfig& m, const Lengths&) const {
  return apart_flops(m) + adapter_flops(m, names_.prefix);
}

// The products with weights.
double FeedForwardKind::apart_flops(const ModelConfig& m) const {
  return 2 * (is_gated(m) ? 3.0 : 2.0) * static_cast<double>(m.hidden) * static_cast<double>(m.ffn);
}

// The product with the down projection.
double FeedForwardKind::output_flops(const ModelConfig& m) const {
  return 2 * static_cast<double>(m.hidden) * static_cast<double>(m.ffn);
}

// The activation reads its input and writes its output. Its derivative also reads the gradient. Bias gradients read
// gradients once more.
BlockWork FeedForwardKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels) const {
  const auto width = Widths(m, s.tensor).ffn, inner_width = is_gated(m) ? 2 * width : width;
  BlockWork out;
  out.linear(s.rows(), inner_width, m.hidden);
  out.linear(s.rows(), m.hidden, width);
  const auto e = static_cast<double>(s.element_bytes()), rows = static_cast<double>(s.rows());
  out.forward.bytes = out.again.bytes = e * rows * static_cast<double>(inner_width + width);
  out.backward.bytes = e * rows * static_cast<double>(2 * inner_width + width + (has_biases(m) ? inner_width : 0));
  add_adapter_work(m, s, names_.prefix, out);
  return out;
}

}  // namespace trainyard::plan
